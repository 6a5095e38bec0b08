"""How a rule that does not hold is said."""

from __future__ import annotations


class Violation(AssertionError):
    """An invariant does not hold. `rule` is its number."""

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule
