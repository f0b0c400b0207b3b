"""The engine that decodes under masks.

Text becomes token ids in `template` and comes back in `transcript`; in between there are only ids:

    embedded -> engine_thread -> engine: scheduler -> model (attention) -> masks -> sampling

`protocol`, `request`, `events`, `errors` and `calls` need no model, and are all that a gateway sees.
"""
