"""Wire formats: pure translations between an API's JSON and the neutral turn and its events."""
