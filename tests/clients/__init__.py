"""The conformance matrix: every client runs the same conversation against a gateway, in an environment of its own.

`make test-clients` runs this package. For each row of `client_table.py` it installs the client, runs its script
(`scripts/`) and its snippet of `docs/frameworks.md` against one gateway with the tiny model, and records what they
sent. The recordings (`recorded/`) are what `docs/clients.md` is made from, and what `test_recorded_requests.py`
replays.

The tiny model is small, so a script judges the protocol: calls that the client takes for valid, results that the
gateway takes back, streams that the client reads to their end. It does not judge how clever an answer is.
"""
