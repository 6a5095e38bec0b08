"""/: the operator's page. One HTML file, one style sheet and a few ES modules, written by hand and served
unchanged. The page reads everything from the REST API, with the reader's own token where tokens are used. It
shows answers as text, never as markup."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from fastapi import APIRouter

from admin_api.static_assets import POLICY, Asset, serve
from admin_api.strict_route import TextRoute

PAGE: Final = "index.html"


def create_console_router() -> APIRouter:
    """Return the router of the page at `/` and of its files below `/console/`."""
    router = APIRouter(route_class=TextRoute, include_in_schema=False)
    folder = files("admin_api.console") / "assets"
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        is_page = file.name == PAGE
        asset = Asset.named(file.name, file.read_bytes(), policy=POLICY if is_page else None)
        serve(router, "/" if is_page else f"/console/{file.name}", asset)
    return router
