"""The routes of a gateway, as the application has them."""

from collections.abc import Iterator

from litestar import Litestar


def handlers(app: Litestar) -> Iterator[tuple[str, str, str]]:
    """The methods and paths of all routes, with the names of their handlers."""
    for route in app.routes:
        for handler in route.route_handlers:
            for method in sorted(handler.http_methods - {"OPTIONS"}):
                yield method, route.path, getattr(handler.fn, "func", handler.fn).__name__
