"""/docs: Swagger UI, from assets that this process serves itself. No page names another host.

The assets are those of the PyPI package `fastapi-offline`, which ships Swagger UI 5: the first to render
OpenAPI 3.1, which is what FastAPI writes. (`swagger-ui-bundle` stops at 4.15, which refuses it.) They are
read once, when the application is built.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request, Response

from admin_api.strict_route import TextRoute

_FOLDER: Final = files("fastapi_offline") / "static"
_TYPES: Final = {
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
}
_START: Final = """\
window.addEventListener("load", function () {
  window.ui = SwaggerUIBundle({
    url: "/openapi.json",
    dom_id: "#swagger-ui",
    deepLinking: true,
    displayRequestDuration: true,
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
_ICON: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="M1 11c3-8 4 3 7-3s4 3 7-3" \
fill="none" stroke="#2a8a57" stroke-width="2.4" stroke-linecap="round"/></svg>
"""
_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" type="image/svg+xml" href="/docs/icon.svg">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
#: The page may load from here and nowhere else; Swagger UI draws its icons as data URLs and sets styles.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def create_docs_router(*, title: str) -> APIRouter:
    """/docs and what it needs."""
    router = APIRouter(route_class=TextRoute, include_in_schema=False)
    assets: dict[str, tuple[bytes, str]] = {
        name: ((_FOLDER / name).read_bytes(), media_type) for name, media_type in _TYPES.items()
    }
    assets["start.js"] = (_START.encode(), "text/javascript; charset=utf-8")
    assets["icon.svg"] = (_ICON.encode(), "image/svg+xml")
    etags = {name: f'"{hashlib.sha256(data).hexdigest()[:32]}"' for name, (data, _) in assets.items()}
    page = _PAGE.format(title=title)

    @router.get("/docs")
    async def get_docs() -> Response:
        return Response(page, media_type="text/html", headers={"Content-Security-Policy": _POLICY})

    def serve(name: str) -> None:
        data, media_type = assets[name]
        headers = {"ETag": etags[name], "Cache-Control": "no-cache"}

        @router.get(f"/docs/{name}")
        async def get_asset(request: Request) -> Response:
            if request.headers.get("if-none-match") == etags[name]:
                return Response(status_code=304, headers=headers)
            return Response(data, media_type=media_type, headers=headers)

    for name in assets:
        serve(name)
    return router
