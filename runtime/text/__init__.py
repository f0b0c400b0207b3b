"""Text: from messages to the ids of a prompt, and from ids to prose and calls.

All but the template read what a model writes, as it comes; the engine never sees text.
"""
