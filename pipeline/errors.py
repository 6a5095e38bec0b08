"""What every error that a job ends with has: what is wrong, and what to do about it."""

from __future__ import annotations


class AdvisedError(Exception):
    """advice: what to do; may be empty. It survives the way from one of Spark's workers, advice and all."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice

    @property
    def whole(self) -> str:
        """The message and what to do, where only a text goes on."""
        return f"{self}. {self.advice}" if self.advice else str(self)

    def __reduce__(self) -> tuple[type[AdvisedError], tuple[str, str]]:
        return type(self), (str(self), self.advice)
