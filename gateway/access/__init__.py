"""Who sends a request, what the request may do, and how often.

`AccessControl` sees every request before its route does. It finds the request's `Grant` by its API key, which
stands in the settings or in the store. `route_scopes` is the table of what each route needs of a grant.
"""
