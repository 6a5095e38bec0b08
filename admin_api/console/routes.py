"""The pages that browsers show: the operator's page at /, Swagger UI at /docs.

Both are files of this process, read once and named by a hash of their content; no page loads anything from
another host. The operator's page is one HTML file, one style sheet and a few ES modules, written by hand
and served unchanged. It reads everything from the REST API, with the reader's own token where tokens are
used, and shows answers as text, never as markup.

Swagger UI comes from the PyPI package `fastapi-offline`, which ships version 5, the first to render
OpenAPI 3.1, the version that FastAPI writes. (`swagger-ui-bundle` stops at 4.15, which refuses it.)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request, Response

from admin_api.http.routes import TextRoute

MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
#: The policy of a page that needs no more than this: no inline script or style, and no script, including this
#: project's own, may turn a string into markup.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)


@dataclass(frozen=True, slots=True)
class Asset:
    """One file. policy: its Content-Security-Policy; only pages need one."""

    data: bytes
    media_type: str
    policy: str | None = None

    @classmethod
    def named(cls, name: str, data: bytes, *, policy: str | None = None) -> Asset:
        """Return the asset. Its media type follows from the end of its name; an unknown ending is a
        programming error."""
        return cls(data, MEDIA_TYPES[name[name.rindex(".") :]], policy)

    @property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.data).hexdigest()[:32]}"'


def serve(router: APIRouter, path: str, asset: Asset) -> None:
    """Add the route of an asset. `no-cache` lets a browser keep the file but makes it revalidate: after an
    upgrade no page runs old scripts."""
    headers = {"ETag": asset.etag, "Cache-Control": "no-cache"}
    if asset.policy is not None:
        headers |= {"Content-Security-Policy": asset.policy, "Referrer-Policy": "no-referrer"}

    @router.get(path)
    async def get_asset(request: Request) -> Response:
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(asset.data, media_type=asset.media_type, headers=headers)


_FOLDER: Final = files("fastapi_offline") / "static"
_SHIPPED: Final = ("swagger-ui-bundle.js", "swagger-ui.css")
_START: Final = """\
const dark = window.matchMedia("(prefers-color-scheme: dark)");
function dress() {
  document.documentElement.classList.toggle("dark-mode", dark.matches);
}
dark.addEventListener("change", dress);
dress();
window.addEventListener("load", function () {
  window.ui = SwaggerUIBundle({
    url: "/openapi.json",
    dom_id: "#swagger-ui",
    deepLinking: true,
    displayRequestDuration: true,
    defaultModelExpandDepth: 2,
    defaultModelsExpandDepth: 0,
    docExpansion: "list",
    filter: true,
    layout: "BaseLayout",
    persistAuthorization: true,
    presets: [SwaggerUIBundle.presets.apis],
    tagsSorter: function (a, b) { return 0; },
    tryItOutEnabled: true,
    validatorUrl: null,
  });
});
"""
#: Swagger UI has a dark mode, which a class of the root element turns on.
_STYLE: Final = """\
body { margin: 0; }
.home { display: block; max-width: 1460px; margin: 0 auto; padding: 1rem 20px 0;
  font: 15px/1.5 system-ui, sans-serif; color: #1f7a4c; text-underline-offset: 0.2em; }
html.dark-mode { background: #1c2022; color-scheme: dark; }
html.dark-mode .home { color: #6ccb98; }
.swagger-ui .info { margin: 1.5rem 0; }
.swagger-ui .scheme-container { padding: 1rem 0; box-shadow: none; background: none; }
"""
_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" type="image/svg+xml" href="/console/icon.svg">
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="stylesheet" href="/docs/page.css">
</head>
<body>
<a class="home" href="/">The clusters at a glance</a>
<div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
#: The page may load only from this server. Swagger UI draws its icons as data URLs and sets styles.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@cache
def create_docs_router(*, title: str) -> APIRouter:
    """Return the router of /docs and its assets, the same each time."""
    router = APIRouter(route_class=TextRoute, include_in_schema=False)
    serve(router, "/docs", Asset.named("docs.html", _PAGE.format(title=title).encode(), policy=_POLICY))
    for name in _SHIPPED:
        serve(router, f"/docs/{name}", Asset.named(name, (_FOLDER / name).read_bytes()))
    serve(router, "/docs/start.js", Asset.named("start.js", _START.encode()))
    serve(router, "/docs/page.css", Asset.named("page.css", _STYLE.encode()))
    return router


PAGE: Final = "index.html"


@cache
def create_console_router() -> APIRouter:
    """Return the router of the page at `/` and of its files below `/console/`, the same each time."""
    router = APIRouter(route_class=TextRoute, include_in_schema=False)
    folder = files("admin_api.console") / "assets"
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        is_page = file.name == PAGE
        asset = Asset.named(file.name, file.read_bytes(), policy=POLICY if is_page else None)
        serve(router, "/" if is_page else f"/console/{file.name}", asset)
    return router
