"""Files that browsers fetch from this process: read once, named by a hash of their content, and not allowed
to load anything from another host."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request, Response

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
