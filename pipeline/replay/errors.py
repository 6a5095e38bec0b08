"""Why a replay is refused or ends, and what to do about it."""

from __future__ import annotations

from pipeline.errors import AdvisedError


class ReplayError(AdvisedError):
    """A replay's source, plan or progress is not as it must be."""
