"""The HTTP routes: each a few lines over the objects that `create_app` wires."""
