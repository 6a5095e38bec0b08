"""The release that this is, named here only: the package, the API's description and the documents read it."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.3.0"
