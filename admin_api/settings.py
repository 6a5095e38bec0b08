"""Limits and options of the REST interface. Every limit has a name here and a test that reaches it."""

from __future__ import annotations

from typing import Final

import msgspec

#: The delay for clients that are asked to retry: an election or a reconnect takes about this long.
RETRY_AFTER_S: Final = 1


class ApiSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and options of the REST interface.

    body_bytes_max: of one request.
    measured_bytes_max: of a request about plans, which may hold the rates of all partitions.
    target_bytes_max: path and query.
    headers_bytes_max, headers_max: all header fields.
    head_timeout_ms, body_timeout_ms: from the first byte of one to its last.
    json_depth_max: nesting of a body.
    page_limit_default, page_limit_max: items of a list.
    preflight_deadline_ms: how long `POST brokers` waits for its brokers before the operation fails.
    operation_wake_ms: how often the operations runner looks if nothing woke it.
    sizes_wait_ms: how long after a takeover, at most, an operation delays its plan because some leader has
    not yet reported the size of its log.
    read_only: every operator's write is refused; brokers are served as usual.
    if_match_required: an existing resource is changed or deleted only under an If-Match.
    hsts_s: how long browsers are told to use only https, in seconds; 0 does not tell them.
    webhook_hosts: hosts that webhooks may name; none: any.
    event_streams_max: event streams open at once.
    event_stream_ms_max: how long a stream lasts before its client has to open it again.
    event_heartbeat_ms: after this time without an event a comment is sent.
    event_poll_ms: how often an operation is looked at for its stream.
    """

    body_bytes_max: int = 1_048_576
    #: Two numbers of up to nine digits for each of 200,000 partitions.
    measured_bytes_max: int = 4 * 1_048_576
    #: Room for the longest reason, whose characters take up to twelve bytes each in a query, and a long path
    #: before it.
    target_bytes_max: int = 16_384
    headers_bytes_max: int = 32_768
    head_timeout_ms: int = 10_000
    body_timeout_ms: int = 30_000
    headers_max: int = 100
    json_depth_max: int = 64
    page_limit_default: int = 100
    page_limit_max: int = 1_000
    preflight_deadline_ms: int = 600_000
    operation_wake_ms: int = 200
    #: Brokers find a new controller in a second or two. A broker that died with the old controller is fenced
    #: by then.
    sizes_wait_ms: int = 10_000
    read_only: bool = False
    if_match_required: bool = False
    hsts_s: int = 0
    webhook_hosts: tuple[str, ...] = ()
    #: Whether Kafka clients may administer through a broker where tokens are used. Without tokens they always
    #: may.
    kafka_administration: bool = False
    event_streams_max: int = 100
    event_stream_ms_max: int = 600_000
    event_heartbeat_ms: int = 15_000
    event_poll_ms: int = 500
