"""The HTTP routes: each is a few lines over the services that `create_app` connects."""
