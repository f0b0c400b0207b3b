"""The engine that decodes under masks.

Text becomes token ids in `text.template` and comes back in `transcript`; in between there are only ids:

    embedded -> engine_thread -> engine: scheduler -> forward -> masks -> sampling

`protocol`, `request`, `events` and `errors` need no model, and are all that a gateway sees.
"""
