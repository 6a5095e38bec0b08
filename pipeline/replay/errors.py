"""Why a replay is refused or ends, and what to do about it."""

from __future__ import annotations


class ReplayError(Exception):
    """advice: what to do; may be empty."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice

    def __reduce__(self) -> tuple[type[ReplayError], tuple[str, str]]:
        return ReplayError, (str(self), self.advice)
