"""What is wrong with a heartbeat whatever its group is."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.core.groups.consumer.checks import refusal_of
from coordinator.core.groups.consumer.requests import ConsumerHeartbeat
from coordinator.core.groups.options import GroupOptions
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.consumer_desk import NOTHING, some, topic

OPTIONS = GroupOptions(member_bytes_max=100)
JOIN = ConsumerHeartbeat(
    token=1,
    group_id="g",
    member_id="m",
    member_epoch=0,
    rebalance_timeout_ms=1_000,
    topics=(),
    owned=NOTHING,
)
BEAT = ConsumerHeartbeat(token=1, group_id="g", member_id="m", member_epoch=3)


@pytest.mark.parametrize(
    ("request_", "changes"),
    [
        (BEAT, {"group_id": ""}),
        (BEAT, {"instance_id": ""}),
        (BEAT, {"rack_id": ""}),
        (BEAT, {"member_id": ""}),
        (BEAT, {"member_id": "", "member_epoch": -1}),
        (BEAT, {"member_id": "", "new_member_id": "new"}),
        (JOIN, {"member_id": ""}),
        (BEAT, {"member_epoch": -3}),
        (BEAT, {"member_epoch": -2}),
        (JOIN, {"rebalance_timeout_ms": -1}),
        (JOIN, {"owned": None}),
        (JOIN, {"owned": some(topic("t", 1), 0)}),
        (JOIN, {"topics": None}),
        (JOIN, {"topics": None, "pattern": ""}),
        (JOIN, {"client_id": "c" * 32_768}),
        (JOIN, {"topics": ("t" * 101,)}),
    ],
)
def test_what_no_client_should_send_is_refused(request_: ConsumerHeartbeat, changes: dict[str, Any]) -> None:
    assert refusal_of(request_, OPTIONS) is None
    refusal = refusal_of(replace(request_, **changes), OPTIONS)
    assert refusal is not None
    assert refusal.error is ErrorCode.INVALID_REQUEST


def test_a_static_member_may_leave_for_a_while_and_texts_may_be_as_long_as_a_record_can_hold() -> None:
    assert refusal_of(replace(BEAT, member_epoch=-2, instance_id="i"), OPTIONS) is None
    assert refusal_of(replace(JOIN, client_id="c" * 32_767, topics=("t" * 100,)), OPTIONS) is None


def test_a_member_without_an_id_gets_one_in_version_0() -> None:
    assert refusal_of(replace(JOIN, member_id="", new_member_id="new"), OPTIONS) is None


def test_an_assignor_that_is_not_configured_is_refused_but_not_from_one_that_leaves() -> None:
    wish = replace(BEAT, assignor="sticky")
    assert refusal_of(wish, OPTIONS) == (ErrorCode.UNSUPPORTED_ASSIGNOR, "the assignors are uniform, range")
    assert refusal_of(replace(wish, member_epoch=-1), OPTIONS) is None
