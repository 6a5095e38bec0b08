"""What clients asked and were refused: counted by API, error and software, and told once an hour.

An application that is refused tells its own log, which who runs the cluster seldom sees. So each error of
an answer is counted here, as Kafka does (`kafka.network:type=RequestMetrics,name=ErrorsPerSec`), with the
client's software as it names itself (KIP-511). What a client can't mend by asking again is a log line as
well: one an hour for each kind.

Strangers choose what stands here, so that the number of kinds is bounded.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from springtide.node.client import KnownClient
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode, error_code

KINDS_MAX: Final = 1000
TOLD_EVERY_MS: Final = 3_600_000
SOFTWARE_CHARS_MAX: Final = 64
UNKNOWN_SOFTWARE: Final = "unknown"
"""Of a client that asked for ApiVersions below version 3, or not at all."""
OTHER_SOFTWARE: Final = "other"
"""Of all clients, once there are too many kinds."""

ROUTINE: Final = frozenset(
    {
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)
"""Not retriable by Kafka's list, but by which a group's members learn what to do next: no log line."""
ROUTINE_OF: Final = {
    # Java's admin client asks this API of every group first, and is sent to DescribeGroups by these.
    ApiKey.CONSUMER_GROUP_DESCRIBE: (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION),
    # A client that is newer than we are begins with its own version and falls back by the answer (KIP-511).
    ApiKey.API_VERSIONS: (ErrorCode.UNSUPPORTED_VERSION,),
}
"""The same of one API."""

_USABLE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")
"""What Kafka takes as a name or version of software (ApiVersionsRequest)."""

_log = logging.getLogger(__name__)


def client_id_of(client: KnownClient) -> str:
    """Return a client's id as log lines tell it: it may be long, or none."""
    return (client.client_id or "")[:SOFTWARE_CHARS_MAX]


def software_of(name: str, version: str) -> str | None:
    """Return how a client's software is told, or None if Kafka would refuse the name or version."""
    if not (_USABLE_NAME.fullmatch(name) and _USABLE_NAME.fullmatch(version)):
        return None
    return f"{name} {version}"[:SOFTWARE_CHARS_MAX]


def is_routine(api_key: ApiKey, error: ErrorCode) -> bool:
    """Return whether clients go on after this error by themselves, so that the operator need not know."""
    return error.is_retriable or error in ROUTINE or error in ROUTINE_OF.get(api_key, ())


class Refusals:
    """The errors that one process has answered."""

    __slots__ = ("_counts", "_told")

    def __init__(self) -> None:
        self._counts: dict[tuple[int, int, str], int] = {}
        #: Of each kind that is told: when it was last (monotonic, ms), and the count then.
        self._told: dict[tuple[int, int, str], tuple[int, int]] = {}

    def note(
        self, api_key: int, errors: Iterable[int], client: KnownClient, *, now_ms: int, cause: str = ""
    ) -> None:
        """Count each error but NONE. now_ms: monotonic. cause: what the client is told of them, if it is."""
        for code in errors:
            if code:
                self._note(api_key, code, client, now_ms, cause)

    def _note(self, api_key: int, code: int, client: KnownClient, now_ms: int, cause: str) -> None:
        kind = (api_key, code, client.software)
        if kind not in self._counts and len(self._counts) >= KINDS_MAX:
            kind = (api_key, code, OTHER_SOFTWARE)
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if is_routine(ApiKey(api_key), error := error_code(code)):
            return
        told_ms, told_count = self._told.get(kind, (now_ms - TOLD_EVERY_MS, 0))
        if now_ms - told_ms < TOLD_EVERY_MS:
            return
        self._told[kind] = (now_ms, count)
        _log.warning(
            "request_refused request=%s error=%s software=%s count=%d client_id=%s principal=%s peer=%s "
            "cause=%s",
            ApiKey(api_key).kafka_name,
            error.name,
            kind[2],
            count - told_count,
            client_id_of(client),
            client.principal,
            client.peer,
            cause or "-",
        )

    def collect(self) -> Metric:
        """Return the family of the counts."""
        family = CounterMetricFamily(
            "kafka_network_requestmetrics_errors",
            "Errors answered, by the client's software",
            labels=["request", "error", "software"],
        )
        for (api_key, code, software), count in sorted(self._counts.items()):
            family.add_metric([ApiKey(api_key).kafka_name, error_code(code).name, software], count)
        return family
