"""The sink's options: those of Spark's Kafka sink that mean something here, and ours.

Names are case-insensitive. What would make a promise silently weaker (acks below all, idempotence off) is
refused under exactly-once, with the delivery that would allow it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from pipeline.client.config import ClientConfig, client_config
from pipeline.client.errors import InvalidClientOption
from pipeline.records.encode import BATCH_BYTES_MAX, BatchOptions
from pipeline.sink.delivery import DeliveryOptions
from pipeline.sink.errors import InvalidSinkOption
from pipeline.sink.identity import SINK_ID_BYTES_MAX
from springtide.wire.compression import Compression

CLIENT_PREFIX = "kafka."
RETRY_BUDGET_MS = 10_000
"""Of one question. The delivery asks again, until its own time is up."""
BATCH_BYTES_MIN = 1024

_DURATION = re.compile(r"(\d{1,15})\s*(ms|s|m|min|h|d|)\Z")
_UNITS_MS = {
    "": 1,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_REFUSED = {
    "key.serializer": "keys are written as the bytes of their column",
    "value.serializer": "values are written as the bytes of their column",
    "interceptor.classes": "there is no producer that could run them",
    "partitioner.class": "rows are placed by their column 'partition', or by their key as Kafka does",
    "transactional.id": "this sink writes no transactions",
}


class DeliveryMode(Enum):
    """What becomes of a record when tasks, brokers or drivers die."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Checked and picklable. `given_sink_id` None: the query's or the run's own id."""

    client: ClientConfig
    mode: DeliveryMode
    topic: str | None
    batches: BatchOptions
    delivery: DeliveryOptions
    given_sink_id: str | None
    checkpoint_location: str | None


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Options as Spark gives them, names in any case. Raises InvalidSinkOption."""
    options = {name.lower(): value for name, value in given.items()}
    ours = {
        name.removeprefix(CLIENT_PREFIX): value
        for name, value in options.items()
        if name.startswith(CLIENT_PREFIX)
    }
    for name, why in _REFUSED.items():
        if name in ours:
            raise InvalidSinkOption(f"option 'kafka.{name}' is not supported: {why}")
    mode = _mode(options)
    _check_promise(mode, ours)
    try:
        client = replace(client_config(ours), retry_budget_ms=RETRY_BUDGET_MS)
    except InvalidClientOption as error:
        raise InvalidSinkOption(str(error)) from error
    defaults = DeliveryOptions()
    stalled_ms = _duration_ms(ours, "delivery.timeout.ms", defaults.stalled_ms)
    return SinkOptions(
        client=client,
        mode=mode,
        topic=options.get("topic"),
        batches=BatchOptions(
            compression=_compression(ours), batch_bytes_max=_batch_bytes(options.get("batchbytes"))
        ),
        delivery=replace(
            defaults,
            stalled_ms=stalled_ms,
            memory_trusted_ms=_duration_ms(options, "producerStateTrusted", defaults.memory_trusted_ms),
        ),
        given_sink_id=_sink_id(options),
        checkpoint_location=options.get("checkpointlocation"),
    )


def _mode(options: Mapping[str, str]) -> DeliveryMode:
    text = options.get("delivery", DeliveryMode.EXACTLY_ONCE.value).strip().lower()
    if text == "transactional":
        raise InvalidSinkOption(
            "delivery=transactional: the brokers have no transactions. 'exactly-once' stores every record "
            "once too, but readers may see the first half of a micro-batch before its end"
        )
    try:
        return DeliveryMode(text)
    except ValueError:
        known = ", ".join(f"'{mode.value}'" for mode in DeliveryMode)
        raise InvalidSinkOption(f"option 'delivery' must be one of {known}, not {text!r}") from None


def _check_promise(mode: DeliveryMode, ours: Mapping[str, str]) -> None:
    acks = ours.get("acks", "all").strip().lower()
    if acks not in ("all", "-1"):
        raise InvalidSinkOption(f"kafka.acks={acks}: this sink waits for all in-sync replicas (acks=all)")
    idempotence = ours.get("enable.idempotence", "true").strip().lower()
    if mode is DeliveryMode.EXACTLY_ONCE and idempotence != "true":
        raise InvalidSinkOption(
            "kafka.enable.idempotence=false contradicts delivery=exactly-once; set delivery=at-least-once"
        )


def _compression(ours: Mapping[str, str]) -> Compression:
    text = ours.get("compression.type", "none").strip()
    try:
        return Compression[text.upper()]
    except KeyError:
        known = ", ".join(one.name.lower() for one in Compression)
        raise InvalidSinkOption(f"kafka.compression.type must be one of {known}, not {text!r}") from None


def _batch_bytes(text: str | None) -> int:
    if text is None:
        return BATCH_BYTES_MAX
    try:
        value = int(text.strip())
    except ValueError:
        value = 0
    if not BATCH_BYTES_MIN <= value <= 512 * 1024 * 1024:
        raise InvalidSinkOption(f"option 'batchBytes' must be {BATCH_BYTES_MIN} to 536870912, not {text!r}")
    return value


def _sink_id(options: Mapping[str, str]) -> str | None:
    text = options.get("sinkid")
    if text is not None and not 0 < len(text.encode()) <= SINK_ID_BYTES_MAX:
        raise InvalidSinkOption(f"option 'sinkId' must have 1 to {SINK_ID_BYTES_MAX} bytes")
    return text


def _duration_ms(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name.lower())
    if text is None:
        return default
    found = _DURATION.match(text.strip().lower())
    if found is None or not int(found[1]):
        raise InvalidSinkOption(f"option '{name}' must be a time like 500ms, 30s, 15m or 1h, not {text!r}")
    return int(found[1]) * _UNITS_MS[found[2]]
