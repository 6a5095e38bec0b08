"""/docs: Swagger UI, from assets that this process serves itself. No page loads anything from another host.

The assets come from the PyPI package `fastapi-offline`, which ships Swagger UI 5, the first version to render
OpenAPI 3.1, the version that FastAPI writes. (`swagger-ui-bundle` stops at 4.15, which refuses it.) They are
read once, when the application is built.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from fastapi import APIRouter

from admin_api.static_assets import Asset, serve
from admin_api.strict_route import TextRoute

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


def create_docs_router(*, title: str) -> APIRouter:
    """Return the router of /docs and its assets."""
    router = APIRouter(route_class=TextRoute, include_in_schema=False)
    serve(router, "/docs", Asset.named("docs.html", _PAGE.format(title=title).encode(), policy=_POLICY))
    for name in _SHIPPED:
        serve(router, f"/docs/{name}", Asset.named(name, (_FOLDER / name).read_bytes()))
    serve(router, "/docs/start.js", Asset.named("start.js", _START.encode()))
    serve(router, "/docs/page.css", Asset.named("page.css", _STYLE.encode()))
    return router
