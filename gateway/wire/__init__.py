"""Wire formats: pure translations between an API's JSON and the neutral turn and its events.

For each API, `request.py` reads a body into a `Turn`, and another module writes the events of a `Generation`
as JSON.
"""
