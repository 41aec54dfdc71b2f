"""Faults of Gradio 6.31 and uvicorn 0.54 that strangers could use, each with the smallest change that mends it."""

from typing import Any

from gradio import routes
from starlette.types import ASGIApp


def without_gradios_cors() -> None:
    """Leave answers to scripts of other sites to the CORSMiddleware that the app is given.

    Gradio 6.31 allows the scripts of every site whatever they ask, with the visitor's cookies, wherever a server is
    not asked for as localhost (CustomCORSMiddleware). It steps aside for a middleware of a parent app, but not for one
    in ``app_kwargs``.
    """
    routes.CustomCORSMiddleware = _nothing


def _nothing(app: ASGIApp, **_options: Any) -> ASGIApp:
    return app
