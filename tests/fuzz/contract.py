"""The bodies that brokers send to controllers, and the changes that controllers send to brokers.

msgspec decodes them in C: here nothing guides the search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from springtide.contract.administration import (
    AdminRequest,
    AlterConfigsCall,
    AlterQuotasCall,
    AlterScramCall,
    ConfigsToAlter,
    QuotasToAlter,
    ResourceKind,
    ScramUpsertion,
)
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.lag_report import LagReport
from springtide.contract.preflight import PreflightReport
from springtide.contract.security import EntityQuotas, QuotaEntity, UserSecrets
from springtide.contract.updates import NameWriterRequest, PollRequest, UpdateBatch
from tests.fuzz.target import Target

BODIES: Final[tuple[type[Any], ...]] = (
    PollRequest,
    LagReport,
    NameWriterRequest,
    PreflightReport,
    AdminRequest,
    UpdateBatch,
)


def decode_body(data: bytes) -> bool:
    """Decode one body, whose type the first byte chooses; what is taken is the same when it is sent on."""
    if not data:
        return False
    kind = BODIES[data[0] % len(BODIES)]
    try:
        body = msgspec.json.decode(data[1:], type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):  # as in broker_api.read_body
        return False
    assert msgspec.json.decode(msgspec.json.encode(body), type=kind) == body
    return True


def bodies() -> Sequence[bytes]:
    calls = (
        AlterConfigsCall(
            resources=(ConfigsToAlter(kind=ResourceKind.TOPIC, name="t", configs={"retention.ms": None}),)
        ),
        AlterScramCall(
            upsertions=(
                ScramUpsertion(
                    user="alice", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p" * 32
                ),
            )
        ),
        AlterQuotasCall(
            entities=(QuotasToAlter(entity=QuotaEntity(user="alice"), quotas={"request_percentage": 1.5}),)
        ),
    )
    asked = [
        AdminRequest(broker_id=1, broker_epoch=BrokerEpoch(2), client_host="h", call=call) for call in calls
    ]
    told = UpdateBatch(
        full=True,
        users=(UserSecrets(user="alice", scram=()),),
        quotas=(EntityQuotas(entity=QuotaEntity(client_id=""), quotas={"producer_byte_rate": 1.0}),),
    )
    writer = NameWriterRequest(broker_id=1, broker_epoch=BrokerEpoch(2), topic_id="t", partition=0)
    usual = [
        kind(broker_id=1, broker_epoch=BrokerEpoch(2)) for kind in (PollRequest, LagReport, PreflightReport)
    ]
    values = [*asked, told, writer, *usual]
    return [bytes([BODIES.index(type(value))]) + msgspec.json.encode(value) for value in values]


CONTRACT = Target(decode_body, bodies)
