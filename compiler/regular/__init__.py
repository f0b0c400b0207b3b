r"""Regular languages of strings: ECMA-262 patterns and formats as automata, from which grammars are written.

One pattern, `^a+b?$`, to its automaton:

1. `ecma.parse` reads it into a syntax tree (`pattern_tree`). `$` in the outer reading would also hold before
   a final newline, `\d` in the inner reading has ASCII digits only (`charset`).

       Concat(Assertion("^"), Repetition(Chars(a), 1, None), Repetition(Chars(b), 0, 1), Assertion("$"))

2. `dfa.Alphabet` finds the sets of characters that the pattern distinguishes, one symbol each: 0 is every
   character but a and b, 1 is a, 2 is b.

3. `nfa.search` builds a nondeterministic automaton (Thompson), makes it deterministic (subset construction)
   and minimises it (Hopcroft). State 0 is the start, -1 is dead:

       table = ((-1, 1, -1),     # 0: nothing read, only a leads on
                (-1, 1, 2),      # 1: a+
                (-1, -1, -1))    # 2: a+b
       accepting = {1, 2}

4. `language.language` intersects it with the automata of the other patterns and formats of the same string,
   and with the complements of those that must not match.

5. `compiler.scalars.text_rules` writes the automaton as grammar rules. If it is large because a pattern may
   match anywhere, `transition_pruning` removes redundant transitions first.

Why our own: interegular reads Python's dialect, disagrees with ECMA-262 on classes and anchors, and takes
seconds for patterns with counts. greenery is slower still. xgrammar's own converter matches whole strings
only.
"""
