"""From a turn, whichever API it came from, to the generation that answers it.

Wire formats and the runtime meet in `turn`. `Completions` finds the model, the tools and the grammar of a
turn, and `generation_request` makes of them what a runtime takes.
"""
