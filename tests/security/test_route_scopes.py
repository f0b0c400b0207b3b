"""Which key opens which route, however its path is spelled."""

import pytest
from litestar import Litestar, get

from gateway.app import create_app
from gateway.route_scopes import ROUTE_SCOPES, OpenPaths


def handlers(app):
    """The methods and paths of all routes, with the names of their handlers."""
    for route in app.routes:
        for handler in route.route_handlers:
            for method in handler.http_methods - {"OPTIONS"}:
                yield method, route.path, getattr(handler.fn, "func", handler.fn).__name__


def test_every_route_stands_in_the_table_and_every_row_is_a_route(settings, runtime):
    app = create_app(settings, runtime=runtime)
    assert {name for _, _, name in handlers(app)} == ROUTE_SCOPES.keys()


def test_an_application_with_a_route_that_has_no_row_does_not_start():
    @get("/v1/secrets")
    async def tell_secrets() -> str:
        return "secret"

    with pytest.raises(AssertionError, match="tell_secrets"):
        OpenPaths.of(Litestar([tell_secrets]))
