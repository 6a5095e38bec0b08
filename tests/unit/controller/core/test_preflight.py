"""Before brokers are admitted: who tries whom, and what holds an admission up."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
import pytest

from controller.core.image import ClusterImage
from controller.core.options import PreflightLimits
from controller.core.preflight import CheckState, HeardReport, judge, targets
from controller.core.records import BrokerRegistration, Cause, Change, ClusterRecord, MemberRecord
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.preflight import (
    ClockFigures,
    DiskFigures,
    PeerReach,
    PreflightReport,
    ReachFailure,
)
from tests.kit.controller.core_cluster import CLUSTER_ID

LIMITS = PreflightLimits(
    clock_skew_ms_max=1_000, free_bytes_min=1_000, flush_ms_max=100, report_age_ms_max=10_000
)
NOW_MS = 50_000
GOOD_DISK = DiskFigures(free_bytes=5_000, flush_us=900, flush_us_max=2_000)
GOOD_CLOCK = ClockFigures(ahead_ms=-3, error_ms=2)


def broker(broker_id: int, *, admitted: bool, fenced: bool = False, rack: str | None = None) -> MemberRecord:
    return MemberRecord(
        registration=BrokerRegistration(
            broker_id=broker_id,
            broker_epoch=BrokerEpoch(100 + broker_id),
            incarnation_id=f"{broker_id}-a",
            host=f"store{broker_id}",
            port=9092,
            rack=rack,
            admitted=admitted,
            fenced=fenced or not admitted,
        ),
        change=Change(cause=Cause.BROKER_REGISTERED, at_ms=0),
    )


def image_of(*brokers: MemberRecord) -> ClusterImage:
    image = ClusterImage()
    image.replay(ClusterRecord(cluster_id=CLUSTER_ID, change=Change(cause=Cause.CLUSTER_CREATED, at_ms=0)))
    for record in brokers:
        image.replay(record)
    return image


#: Brokers 1 and 2 live, 3 is down, 4 and 5 wait.
IMAGE = image_of(
    broker(1, admitted=True),
    broker(2, admitted=True),
    broker(3, admitted=True, fenced=True),
    broker(4, admitted=False),
    broker(5, admitted=False),
)


def heard(
    image: ClusterImage,
    broker_id: int,
    *,
    failing: tuple[int, ...] = (),
    omitting: tuple[int, ...] = (),
    disk: DiskFigures | None = GOOD_DISK,
    clock: ClockFigures | None = GOOD_CLOCK,
    reaches: bool | None = True,
    age_ms: int = 0,
    broker_epoch: int | None = None,
) -> HeardReport:
    """What a broker says that tried all it was asked to."""
    peers = tuple(
        PeerReach(
            broker_id=target.broker_id,
            broker_epoch=target.broker_epoch,
            failure=ReachFailure.LISTENER_UNREACHABLE if target.broker_id in failing else None,
            detail="Connection refused" if target.broker_id in failing else "",
        )
        for target in targets(image, broker_id) or ()
        if target.broker_id not in omitting
    )
    report = PreflightReport(
        broker_id=broker_id,
        broker_epoch=BrokerEpoch(100 + broker_id if broker_epoch is None else broker_epoch),
        peers=peers,
        disk=disk,
        clock=clock,
    )
    return HeardReport(report=report, received_ms=NOW_MS - age_ms, controller_reaches=reaches)


def all_heard(
    image: ClusterImage = IMAGE, changed: Mapping[int, HeardReport] = MappingProxyType({})
) -> dict[int, HeardReport]:
    return {broker_id: heard(image, broker_id) for broker_id in image.brokers} | dict(changed)


def unmet(
    reports: dict[int, HeardReport], *, candidates: tuple[int, ...] = (4,), image: ClusterImage = IMAGE
) -> list[tuple[int, str, str]]:
    checks = judge(image, reports, candidates, LIMITS, now_ms=NOW_MS)
    return [(c.broker_id, c.name, c.code) for c in checks if c.state is not CheckState.PASSED]


def test_who_waits_tries_everybody_alive_and_who_lives_tries_those_that_wait() -> None:
    def tried(broker_id: int) -> list[int] | None:
        found = targets(IMAGE, broker_id)
        return None if found is None else [target.broker_id for target in found]

    assert tried(4) == [1, 2, 5]  # 3 is down: nobody could answer
    assert tried(5) == [1, 2, 4]
    assert tried(1) == tried(3) == [4, 5]
    assert tried(9) is None
    settled = image_of(broker(1, admitted=True), broker(2, admitted=True))
    assert targets(settled, 1) is None
    alone = image_of(broker(1, admitted=False))
    assert targets(alone, 1) == ()  # its own disk and clock are worth a report
    (first, *_) = targets(IMAGE, 4) or ()
    assert (first.broker_epoch, first.host, first.port) == (101, "store1", 9092)


def test_a_broker_passes_when_both_sides_found_everything_in_order() -> None:
    reports = all_heard()
    assert unmet(reports) == []
    assert unmet(reports, candidates=(4, 5)) == []
    names = {check.name for check in judge(IMAGE, reports, [4], LIMITS, now_ms=NOW_MS)}
    assert names == {"report", "listener", "peers", "clock", "disk_space", "disk_flush", "rack"}


def test_of_admitted_or_unknown_brokers_nothing_is_asked() -> None:
    assert judge(IMAGE, {}, [1, 3, 9], LIMITS, now_ms=NOW_MS) == ()


def test_a_broker_that_waits_but_is_not_to_be_added_holds_nobody_up() -> None:
    reports = all_heard(changed={4: heard(IMAGE, 4, omitting=(5,))})
    del reports[5]
    assert unmet(reports) == []
    assert [item[0] for item in unmet(reports, candidates=(4, 5))] == [4, 5, 5]


@pytest.mark.parametrize(
    ("silent", "expected"),
    [
        # Its own report says what it reaches, too.
        (4, [(4, "report", "preflight_pending"), (4, "peers", "preflight_pending")]),
        (1, [(4, "peers", "preflight_pending")]),
    ],
)
def test_who_has_not_reported_is_waited_for(silent: int, expected: list[tuple[int, str, str]]) -> None:
    missing = all_heard()
    del missing[silent]
    assert unmet(missing) == expected
    assert unmet(all_heard(changed={silent: heard(IMAGE, silent, age_ms=10_001)})) == expected
    assert unmet(all_heard(changed={silent: heard(IMAGE, silent, age_ms=10_000)})) == []
    # What another incarnation found is no news of this one.
    assert unmet(all_heard(changed={silent: heard(IMAGE, silent, broker_epoch=7)})) == expected


def test_a_peer_is_reached_in_the_incarnation_that_lives() -> None:
    stale = heard(IMAGE, 4)
    peers = tuple(msgspec.structs.replace(reach, broker_epoch=1) for reach in stale.report.peers)
    report = msgspec.structs.replace(stale.report, peers=peers)
    assert unmet(all_heard(changed={4: msgspec.structs.replace(stale, report=report)})) == [
        (4, "peers", "preflight_pending")
    ]


def test_each_direction_counts() -> None:
    outward = all_heard(changed={4: heard(IMAGE, 4, failing=(2,))})
    inward = all_heard(changed={2: heard(IMAGE, 2, failing=(4,))})
    for reports, words in ((outward, "broker 4 can't work with broker 2"), (inward, "broker 2 can't work")):
        assert unmet(reports) == [(4, "peers", "listener_unreachable")]
        (failed,) = [
            c for c in judge(IMAGE, reports, [4], LIMITS, now_ms=NOW_MS) if c.state is CheckState.FAILED
        ]
        assert failed.detail.startswith(words)
        assert failed.detail.endswith("Connection refused")
        assert [c.name for c in judge(IMAGE, reports, [4], LIMITS, now_ms=NOW_MS)].count("peers") == 1


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ({"reaches": False}, ("listener", "listener_unreachable")),
        ({"reaches": None}, ("listener", "preflight_pending")),
        ({"clock": ClockFigures(ahead_ms=1_150, error_ms=40)}, ("clock", "clock_skew")),
        ({"clock": ClockFigures(ahead_ms=-1_150, error_ms=40)}, ("clock", "clock_skew")),
        ({"clock": None}, ("clock", "preflight_pending")),
        ({"disk": None}, ("disk_space", "preflight_pending")),
        ({"disk": DiskFigures(failure="Input/output error")}, ("disk_flush", "disk_failed")),
        ({"disk": DiskFigures(free_bytes=999, flush_us=1, flush_us_max=1)}, ("disk_space", "low_disk_space")),
        (
            {"disk": DiskFigures(free_bytes=5_000, flush_us=100_001, flush_us_max=200_000)},
            ("disk_flush", "slow_disk"),
        ),
        ({"disk": DiskFigures(free_bytes=5_000)}, ("disk_flush", "preflight_pending")),
    ],
)
def test_what_a_broker_says_of_itself_is_judged(
    reports: dict[str, object], expected: tuple[str, str]
) -> None:
    changed = heard(IMAGE, 4, **reports)  # type: ignore[arg-type]
    assert unmet(all_heard(changed={4: changed})) == [(4, *expected)]


@pytest.mark.parametrize(
    "fine",
    [
        {"clock": ClockFigures(ahead_ms=1_150, error_ms=400)},  # as far as can be told, within the bound
        {"clock": ClockFigures(ahead_ms=1_040, error_ms=40)},
        {"disk": DiskFigures(free_bytes=1_000, flush_us=100_000, flush_us_max=900_000)},
        {"disk": DiskFigures(free_bytes=1_000, flush_us=0, flush_us_max=0)},
    ],
)
def test_bounds_are_inclusive_and_doubt_is_in_favour(fine: dict[str, object]) -> None:
    assert unmet(all_heard(changed={4: heard(IMAGE, 4, **fine)})) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(("ahead_ms", "words"), [(1_390, "1300 ms behind"), (-1_390, "1300 ms ahead of")])
def test_a_clock_that_is_off_is_told_in_words_that_stay_while_it_drifts(ahead_ms: int, words: str) -> None:
    """The controller's clock is ahead of the broker's, or behind it."""
    changed = heard(IMAGE, 4, clock=ClockFigures(ahead_ms=ahead_ms, error_ms=40))
    checks = judge(IMAGE, all_heard(changed={4: changed}), [4], LIMITS, now_ms=NOW_MS)
    (failed,) = (check for check in checks if check.state is CheckState.FAILED)
    assert f"is at least {words} the controller's" in failed.detail


def test_racks_are_named_by_all_or_by_none() -> None:
    racked = image_of(
        broker(1, admitted=True, rack="r1"), broker(4, admitted=False), broker(5, admitted=False, rack="r2")
    )
    assert unmet(all_heard(racked), candidates=(4, 5), image=racked) == [(4, "rack", "rack_missing")]
    bare = image_of(broker(1, admitted=True), broker(4, admitted=False, rack="r1"))
    assert unmet(all_heard(bare), image=bare) == [(4, "rack", "rack_unexpected")]
    founders = image_of(broker(4, admitted=False, rack="r1"), broker(5, admitted=False, rack="r2"))
    assert unmet(all_heard(founders), candidates=(4, 5), image=founders) == []
    one_bare = image_of(broker(4, admitted=False), broker(5, admitted=False, rack="r2"))
    assert unmet(all_heard(one_bare), candidates=(4, 5), image=one_bare) == [
        (4, "rack", "rack_missing"),
        (5, "rack", "rack_unexpected"),
    ]
    assert unmet(all_heard(one_bare), candidates=(4,), image=one_bare) == []  # 5 may never be admitted
    for rack, words in (("r1", "in rack 'r1'"), (None, "no racks are named")):
        alone = image_of(broker(4, admitted=False, rack=rack))
        (check,) = (c for c in judge(alone, {}, [4], LIMITS, now_ms=NOW_MS) if c.name == "rack")
        assert (check.state, check.detail) == (CheckState.PASSED, words)


def test_two_brokers_may_not_advertise_one_address() -> None:
    record = broker(4, admitted=False)
    same = msgspec.structs.replace(
        record, registration=msgspec.structs.replace(record.registration, host="STORE1")
    )
    image = image_of(broker(1, admitted=True), same)
    assert unmet(all_heard(image), image=image) == [(4, "listener", "endpoint_in_use")]
