"""The version that processes tell of themselves."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    try:
        return version("springtide")
    except PackageNotFoundError:  # run from a checkout
        return "unknown"
