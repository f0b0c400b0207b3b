"""Regular languages of strings: ECMA-262 patterns and formats as automata, from which grammars are written.

No maintained library served: interegular reads Python's dialect, disagrees with ECMA-262 on classes and
anchors, and takes seconds for patterns with counts; greenery is slower still; xgrammar's own converter
matches whole strings only. Automata over code point classes are 200 lines.
"""
