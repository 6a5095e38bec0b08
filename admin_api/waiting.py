"""`Prefer: wait=30` (RFC 7240): an answer that names an operation is sent when the operation has ended, or
after this number of seconds, and shows the operation's state at that time. The status is 202 in both cases;
the operation goes on.

A script can thus work without a loop. A preference that can't be read is not an error, because it is only a
preference.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from admin_api.answers import Answer
from admin_api.operations.views import accepted
from admin_api.services import Services
from controller.database.operation_rows import get_operation
from controller.database.sql import DatabaseRejected, DatabaseUnavailable
from controller.operations.model import FINISHED

WAIT_SECONDS_MAX: Final = 60
APPLIED_HEADER: Final = "Preference-Applied"

_POLL_MS: Final = 100
_PREFERENCES_MAX: Final = 20
_DIGITS_MAX: Final = 9


def wait_seconds(fields: Iterable[str]) -> int:
    """Return the seconds that the Prefer header fields ask for, at most a minute; 0 if none can be read. The
    first of several counts."""
    preferences = [item for field in fields for item in field.split(",")][:_PREFERENCES_MAX]
    for preference in preferences:
        name, _, value = preference.partition(";")[0].partition("=")
        digits = value.strip().strip('"')
        if name.strip().lower() == "wait" and digits.isascii() and digits.isdigit():
            return min(int(digits[:_DIGITS_MAX]), WAIT_SECONDS_MAX)
    return 0


async def wait_for_operation(services: Services, answer: Answer, seconds: int) -> Answer:
    """Return the answer, or its new state once its operation has ended. An operation that can't be read is
    not waited for."""
    operation_id = answer.headers.get("Location", "").removeprefix("/operations/")
    if answer.status != 202 or not operation_id or not seconds:
        return answer
    applied = {APPLIED_HEADER: f"wait={seconds}"}
    deadline_ms = services.clock.now_mono_ms() + seconds * 1000
    while True:
        try:
            row = await services.database.read(partial(get_operation, operation_id=operation_id))
        except (DatabaseUnavailable, DatabaseRejected):
            return answer
        if row is None:
            return answer
        ended = row.state in FINISHED
        if ended or services.clock.now_mono_ms() >= deadline_ms or services.engine.role != "active":
            latest = accepted(row, retry_after_s=services.settings.retry_after_s)
            return Answer(answer.status, latest.body, {**answer.headers, **applied})
        await services.clock.sleep_ms(_POLL_MS)
