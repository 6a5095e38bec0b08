"""When a broker may act as a leader, in time and in what it has applied."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.contract.epochs import ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.session import BrokerStatus, HeartbeatResponse
from springtide.node.lease import Lease


def acked(lease: Lease, sent_ms: int, now_ms: int | None = None, **fields: Any) -> None:
    lease.on_heartbeat_acked(
        HeartbeatResponse(
            **{
                "controller_epoch": 1,
                "status": BrokerStatus.ACTIVE,
                "lease_ms": 100,
                "sequence": 7,
                **fields,
            }
        ),
        sent_ms=sent_ms,
        now_ms=sent_ms if now_ms is None else now_ms,
    )


@pytest.fixture
def lease() -> Lease:
    """Held from 1000 on for 100 ms; everything up to (1, 7) is applied."""
    lease = Lease()
    lease.on_applied(controller_epoch=ControllerEpoch(1), sequence=7)
    acked(lease, 1_000)
    return lease


def test_it_counts_from_the_sending_of_the_heartbeat_not_from_the_answer(lease: Lease) -> None:
    acked(lease, 1_050, now_ms=1_090)
    assert lease.is_held(1_149)
    assert not lease.is_held(1_150)


def test_a_late_answer_to_an_earlier_heartbeat_does_not_shorten_it(lease: Lease) -> None:
    acked(lease, 1_060)
    acked(lease, 1_010, now_ms=1_061)
    assert lease.is_held(1_159)


def test_it_is_not_held_before_the_broker_has_applied_what_the_first_answer_named() -> None:
    lease = Lease()
    acked(lease, 1_000)
    assert not lease.is_held(1_000)
    assert lease.is_revoked
    lease.on_applied(controller_epoch=ControllerEpoch(1), sequence=6)
    assert not lease.is_held(1_000)
    lease.on_applied(controller_epoch=ControllerEpoch(1), sequence=7)
    assert lease.is_held(1_000)
    assert not lease.is_revoked


def test_after_a_lapse_it_resumes_only_with_the_current_state_even_if_nobody_asked_meanwhile(
    lease: Lease,
) -> None:
    acked(lease, 1_190, now_ms=1_200, sequence=9)
    assert not lease.is_held(1_200)
    assert not lease.is_revoked
    acked(lease, 1_210, sequence=12)  # the head as of the first answer is enough
    lease.on_applied(controller_epoch=ControllerEpoch(1), sequence=9)
    assert lease.is_held(1_309)


def test_an_answer_that_took_longer_than_the_lease_gives_nothing(lease: Lease) -> None:
    acked(lease, 1_020, now_ms=1_130)
    assert not lease.is_held(1_130)


def test_a_new_controller_after_a_lapse_is_asked_for_its_own_position(lease: Lease) -> None:
    acked(lease, 1_200, sequence=9)
    acked(lease, 1_220, controller_epoch=2, sequence=3)
    lease.on_applied(controller_epoch=ControllerEpoch(1), sequence=9)
    assert not lease.is_held(1_220)
    lease.on_applied(controller_epoch=ControllerEpoch(2), sequence=3)
    assert lease.is_held(1_220)


def test_s16_a_zombie_controller_renews_nothing(lease: Lease) -> None:
    assert lease.on_controller_epoch(ControllerEpoch(2))
    assert not lease.on_controller_epoch(ControllerEpoch(1))
    acked(lease, 1_090)
    assert not lease.is_held(1_100)


@pytest.mark.parametrize("status", [BrokerStatus.FENCED, BrokerStatus.WAITING])
def test_a_fenced_broker_is_silent_at_once_and_until_it_is_active_again(
    lease: Lease, status: BrokerStatus
) -> None:
    acked(lease, 1_010, status=status)
    assert not lease.is_held(1_010)
    assert lease.is_revoked
    lease.on_applied(controller_epoch=ControllerEpoch(1), sequence=8)
    assert not lease.is_held(1_010)
    acked(lease, 1_020, sequence=9)
    assert not lease.is_held(1_020)
    lease.on_applied(controller_epoch=ControllerEpoch(1), sequence=9)
    assert lease.is_held(1_020)


def test_who_shuts_down_still_leads_what_is_not_moved_yet(lease: Lease) -> None:
    acked(lease, 1_050, status=BrokerStatus.SHUTTING_DOWN)
    assert lease.is_held(1_149)


def test_errors_renew_nothing_and_being_disowned_ends_it(lease: Lease) -> None:
    acked(lease, 1_050, error=ControllerError.NOT_CONTROLLER)
    assert lease.is_held(1_099)
    assert not lease.is_held(1_100)
    acked(lease, 1_060, error=ControllerError.STALE_BROKER_EPOCH)
    assert not lease.is_held(1_060)
    assert lease.is_revoked


def test_it_is_current_while_all_is_applied_that_the_last_answer_named(lease: Lease) -> None:
    assert lease.is_current(1_099)
    assert not lease.is_current(1_100)
    acked(lease, 1_050, sequence=9)
    assert lease.is_held(1_050)
    assert not lease.is_current(1_050)
    lease.on_applied(controller_epoch=ControllerEpoch(1), sequence=9)
    assert lease.is_current(1_149)


def test_a_status_of_a_later_release_renews_it_and_begins_none(lease: Lease) -> None:
    acked(lease, 1_050, status=BrokerStatus.UNKNOWN)
    assert lease.is_held(1_149)
    acked(lease, 1_060, status=BrokerStatus.FENCED)
    acked(lease, 1_070, status=BrokerStatus.UNKNOWN)
    assert not lease.is_held(1_071)
    assert lease.is_revoked


def test_an_error_of_a_later_release_is_a_refusal_and_ends_nothing(lease: Lease) -> None:
    acked(lease, 1_050, error=ControllerError.UNKNOWN)
    assert lease.is_held(1_099)
    assert not lease.is_held(1_100)
