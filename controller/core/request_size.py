"""The bound of one request for changes of ACLs, users or quotas.

A controller does nothing else while it decides about a request.
"""

from __future__ import annotations

from typing import Final

from controller.core.events import Refusal, RefusalCode

CHANGES_MAX: Final = 1_000


def check_size(count: int) -> Refusal | None:
    if count <= CHANGES_MAX:
        return None
    return Refusal(
        code=RefusalCode.TOO_MANY_CHANGES,
        detail=f"one request can have {CHANGES_MAX} changes, not {count}",
        limit=CHANGES_MAX,
        hint="split it",
    )
