"""The OpenAPI document, committed under openapi/ and served at /openapi.json.

python -m admin_api.openapi --write; with new examples: python -m tests.rest_examples --write
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

import anyio

from admin_api.unconnected import unconnected_app


def build_document() -> dict[str, Any]:
    """Return the document as a running controller serves it."""
    return anyio.run(_build)


async def _build() -> dict[str, Any]:
    with unconnected_app() as app:
        return app.openapi()


PATH: Final = Path(__file__).parents[2] / "openapi" / "springtide.json"


def render(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m admin_api.openapi", description="The OpenAPI document.")
    parser.add_argument("--write", action="store_true", help=f"write {PATH.name} instead of printing it")
    chosen = parser.parse_args(arguments)
    text = render(build_document())
    if chosen.write:
        PATH.parent.mkdir(exist_ok=True)
        PATH.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0
