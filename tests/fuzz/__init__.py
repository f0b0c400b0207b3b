"""Fuzzing: schemas, patterns and toolsets made up at random, and what a mask then lets a model write.

`python -m fuzz --minutes 10 --seed 1` (see `fuzz.__main__`) makes up one *case* after the other. A case has a kind
(`fuzz.kinds`), which says how its *subject* is made up and what must hold of it:

| kind | subject | what must hold |
|---|---|---|
| schemas | a schema of any draft | what is drawn, closed or accepted is valid; no mask is empty; nothing but `UnsupportedSchema` is raised |
| patterns | a pattern that strings or keys must or must not match | Python, Rust and JavaScript agree on what is accepted |
| toolsets | tools and a call syntax | what is drawn, closed or accepted reads back as calls with valid arguments |
| tagged | parameters that can be strings or JSON, in tags | the same |

Validity has three judges: `jsonschema_rs`, Python's `jsonschema`, and ajv if Node is at hand (`fuzz.judging`). A case is
made of its seed and number alone. What is found is shrunk (`fuzz.shrinking`) and written as a test (`fuzz.findings`).
"""
