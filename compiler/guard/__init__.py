"""Guards: what no context-free grammar holds, kept beside it while decoding.

Two constraints relate parts of a text to one another, so that no grammar of reasonable size says them: the
keys of an object are distinct, and so are the items of an array with `uniqueItems`. A cursor follows the
text, a guard takes out of a mask the tokens that would repeat one, or that would leave nothing else to write.

It also keeps long strings to their bounds, which rules could do, too, but at a price.
"""
