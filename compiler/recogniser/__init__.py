"""The recogniser: follows a text through a grammar and its guard, and knows a short way to complete it.

xgrammar's matchers fill masks; what they cannot tell, where a text is in the rules, closing asks of this.
"""
