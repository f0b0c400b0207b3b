"""Wire formats: pure translations between an API's JSON and the neutral turn and its events.

Of each API, `request.py` reads a body into a `Turn`, and the module of answers writes the events of a
`Generation` as JSON.
"""
