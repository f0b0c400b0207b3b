"""Text: from messages to the ids of a prompt, and from ids to prose and calls.

The template makes the prompt; the other files read the output while it is generated. The engine sees ids
only.
"""
