"""The sink's options: those of Spark's Kafka sink that mean something here, and ours.

Names are case-insensitive. Options that would weaken exactly-once (acks below all, idempotence off) are
refused; the message names the delivery that allows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from pipeline.client.config import ClientConfig
from pipeline.client.security import JAAS_OPTION
from pipeline.errors import InvalidOption
from pipeline.options import NO_JAAS, by_lower_name, client_of, client_options, duration_ms, one_of
from pipeline.records.encode import BATCH_BYTES_MAX, BatchOptions
from pipeline.sink.delivery import DeliveryOptions
from pipeline.sink.identity import SINK_ID_BYTES_MAX
from springtide.wire.compression import Compression

RETRY_BUDGET_MS = 10_000
"""Retry budget of one request. The delivery repeats the request until its own time is up."""
BATCH_BYTES_MIN = 1024

REFUSED_CLIENT_OPTIONS = {
    "key.serializer": "keys are written as the bytes of their column",
    "value.serializer": "values are written as the bytes of their column",
    "interceptor.classes": "there is no producer that could run them",
    "partitioner.class": "rows are placed by their column 'partition', or by their key as Kafka does",
    "transactional.id": "this sink writes no transactions",
    JAAS_OPTION: NO_JAAS,
}


class DeliveryMode(Enum):
    """The guarantee for each record if tasks, brokers or drivers die."""

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
    """Options as Spark gives them, names in any case. Raises InvalidOption."""
    options = by_lower_name(given)
    ours = client_options(options, REFUSED_CLIENT_OPTIONS)
    mode = _mode(options)
    _check_promise(mode, ours)
    client = replace(client_of(ours), retry_budget_ms=RETRY_BUDGET_MS)
    defaults = DeliveryOptions()
    stalled_ms = duration_ms(ours, "delivery.timeout.ms", default=defaults.stalled_ms)
    trusted_ms = duration_ms(options, "producerStateTrusted", default=defaults.memory_trusted_ms)
    return SinkOptions(
        client=client,
        mode=mode,
        topic=options.get("topic"),
        batches=BatchOptions(
            compression=_compression(ours), batch_bytes_max=_batch_bytes(options.get("batchbytes"))
        ),
        delivery=replace(defaults, stalled_ms=stalled_ms, memory_trusted_ms=trusted_ms),
        given_sink_id=_sink_id(options),
        checkpoint_location=options.get("checkpointlocation"),
    )


def _mode(options: Mapping[str, str]) -> DeliveryMode:
    if options.get("delivery", "").strip().lower() == "transactional":
        raise InvalidOption(
            "delivery=transactional: the brokers have no transactions. 'exactly-once' stores every record "
            "once too, but readers may see the first half of a micro-batch before its end"
        )
    return one_of(options, "delivery", DeliveryMode, DeliveryMode.EXACTLY_ONCE)


def _check_promise(mode: DeliveryMode, ours: Mapping[str, str]) -> None:
    acks = ours.get("acks", "all").strip().lower()
    if acks not in ("all", "-1"):
        raise InvalidOption(f"kafka.acks={acks}: this sink waits for all in-sync replicas (acks=all)")
    idempotence = ours.get("enable.idempotence", "true").strip().lower()
    if mode is DeliveryMode.EXACTLY_ONCE and idempotence != "true":
        raise InvalidOption(
            "kafka.enable.idempotence=false contradicts delivery=exactly-once; set delivery=at-least-once"
        )


def _compression(ours: Mapping[str, str]) -> Compression:
    text = ours.get("compression.type", "none").strip()
    try:
        return Compression[text.upper()]
    except KeyError:
        known = ", ".join(one.name.lower() for one in Compression)
        raise InvalidOption(f"kafka.compression.type must be one of {known}, not {text!r}") from None


def _batch_bytes(text: str | None) -> int:
    if text is None:
        return BATCH_BYTES_MAX
    try:
        value = int(text.strip())
    except ValueError:
        value = 0
    if not BATCH_BYTES_MIN <= value <= 512 * 1024 * 1024:
        raise InvalidOption(f"option 'batchBytes' must be {BATCH_BYTES_MIN} to 536870912, not {text!r}")
    return value


def _sink_id(options: Mapping[str, str]) -> str | None:
    text = options.get("sinkid")
    if text is not None and not 0 < len(text.encode()) <= SINK_ID_BYTES_MAX:
        raise InvalidOption(f"option 'sinkId' must have 1 to {SINK_ID_BYTES_MAX} bytes")
    return text
