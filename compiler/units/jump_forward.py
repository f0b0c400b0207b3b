"""The text that xgrammar's matcher knows to follow in any case."""

import xgrammar as xgr


def forced_text(matcher: xgr.GrammarMatcher) -> bytes:
    """What every continuation begins with; empty where the text may end."""
    try:
        return str(matcher.find_jump_forward_string()).encode()
    except UnicodeDecodeError as error:  # inside a character, its other bytes are no text by themselves
        return error.object
