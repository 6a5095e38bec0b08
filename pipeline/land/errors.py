"""Why landing is refused or ends, and what to do about it."""

from __future__ import annotations

from pipeline.errors import AdvisedError


class LandError(AdvisedError):
    """What is landed, or was to be, is not as it must be."""
