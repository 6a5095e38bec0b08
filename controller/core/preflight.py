"""The checks of brokers that wait for admission, judged from what they and their future peers found. Pure.

    image, reports, limits -> checks, each passed, failed or pending

A check that is pending waits for a report; one that failed waits until what it names is mended. Both hold the
admission up, so that no replica is placed on a broker that its peers can't reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from controller.core.image import ClusterImage
from controller.core.options import PreflightLimits
from controller.core.records import BrokerRegistration
from controller.core.workers import workers_named
from springtide.contract.preflight import PeerReach, PreflightReport, PreflightTarget
from springtide.contract.session import BrokerStatus


class CheckState(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    PENDING = "pending"


class PreflightCheck(msgspec.Struct, frozen=True, kw_only=True):
    """name: `report`, `listener`, `peers`, `clock`, `disk_space`, `disk_flush`, `rack`. code: of a check that
    has not passed, what operators' tools may branch on."""

    broker_id: int
    name: str
    state: CheckState
    detail: str
    code: str = ""


class HeardReport(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's latest report. received_ms: monotonic. controller_reaches: whether the broker's listener
    let the controller in, None if that was not tried."""

    report: PreflightReport
    received_ms: int
    controller_reaches: bool | None = None


Reports = Mapping[int, HeardReport]


def targets(image: ClusterImage, broker_id: int) -> tuple[PreflightTarget, ...] | None:
    """Return the listeners that a broker shall try, or None if no broker waits or this one need not try."""
    me = image.brokers.get(broker_id)
    waiting = [b for b in image.brokers.values() if not b.admitted and b.broker_id != broker_id]
    if me is None:
        return None
    if not me.admitted:
        return tuple(map(_target, (*_live(image), *waiting)))
    return tuple(map(_target, waiting)) if waiting else None


def judge(
    image: ClusterImage, reports: Reports, candidates: Sequence[int], limits: PreflightLimits, *, now_ms: int
) -> tuple[PreflightCheck, ...]:
    """Return all checks of the candidates' workers that are registered and wait; an admitted one has none."""
    waiting = [worker for worker in workers_named(image, candidates).values() if not worker.admitted]
    checks: list[PreflightCheck] = []
    for broker in waiting:
        checks += _own_checks(image, broker, _fresh(reports, broker, limits, now_ms), limits)
        checks += _peer_checks(image, broker, waiting, reports, limits=limits, now_ms=now_ms)
        checks.append(_rack_check(image, broker, waiting))
    return tuple(checks)


def _live(image: ClusterImage) -> list[BrokerRegistration]:
    """Return the brokers that a new broker will exchange records with. A broker that is down can't be asked
    and is not checked: it was checked when it was added."""
    return [b for b in image.brokers.values() if b.status is BrokerStatus.ACTIVE]


def _target(broker: BrokerRegistration) -> PreflightTarget:
    return PreflightTarget(
        broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, host=broker.host, port=broker.port
    )


def _fresh(
    reports: Reports, broker: BrokerRegistration, limits: PreflightLimits, now_ms: int
) -> HeardReport | None:
    """Return this incarnation's report, or None if it is too old to be believed."""
    heard = reports.get(broker.broker_id)
    if heard is None or heard.report.broker_epoch != broker.broker_epoch:
        return None
    return heard if now_ms - heard.received_ms <= limits.report_age_ms_max else None


def _own_checks(
    image: ClusterImage, broker: BrokerRegistration, heard: HeardReport | None, limits: PreflightLimits
) -> Iterator[PreflightCheck]:
    me = broker.broker_id
    if heard is None:
        yield _pending(
            me,
            "report",
            f"broker {me} has not said yet how its disk and its clock are, or not lately; "
            f"one older than this controller (it runs {broker.version or 'an unnamed version'}) never does",
        )
        return
    yield _passed(me, "report", f"broker {me} reports")
    yield _listener_check(image, broker, heard)
    clock, disk = heard.report.clock, heard.report.disk
    if clock is None:
        yield _pending(me, "clock", f"broker {me} has not compared its clock with the controller's yet")
    else:
        # Rounded, here and below: what an operation waits for is stored, and must not change at every look.
        off_ms = max(0, abs(clock.ahead_ms) - clock.error_ms) // 100 * 100
        way = "behind" if clock.ahead_ms > 0 else "ahead of"
        if off_ms > limits.clock_skew_ms_max:
            detail = (
                f"broker {me}'s clock is at least {off_ms} ms {way} the controller's; "
                f"{limits.clock_skew_ms_max} ms are allowed: is NTP running?"
            )
            yield _failed(me, "clock", "clock_skew", detail)
        else:
            yield _passed(me, "clock", f"within {abs(clock.ahead_ms) + clock.error_ms} ms of the controller")
    if disk is None:
        yield _pending(me, "disk_space", f"broker {me} has not tried its disk yet")
        return
    if disk.failure:
        yield _failed(me, "disk_flush", "disk_failed", f"broker {me}'s disk: {disk.failure}")
        return
    if disk.free_bytes < limits.free_bytes_min:
        detail = (
            f"broker {me} has {disk.free_bytes >> 20} MiB free where its log directory is; "
            f"{limits.free_bytes_min >> 20} are the least"
        )
        yield _failed(me, "disk_space", "low_disk_space", detail)
    else:
        yield _passed(me, "disk_space", f"{disk.free_bytes} bytes free")
    if disk.flush_us < 0:
        yield _pending(me, "disk_flush", f"broker {me} has not timed its disk yet")
    elif disk.flush_us > limits.flush_ms_max * 1000:
        detail = (
            f"broker {me}'s disk takes {disk.flush_us // 50_000 * 50} ms to flush a small append; "
            f"{limits.flush_ms_max} ms are allowed"
        )
        yield _failed(me, "disk_flush", "slow_disk", detail)
    else:
        yield _passed(me, "disk_flush", f"{disk.flush_us} us for a small append, {disk.flush_us_max} at most")


def _listener_check(image: ClusterImage, broker: BrokerRegistration, heard: HeardReport) -> PreflightCheck:
    """Check the listener as the controller sees it; proving a death rests on it later."""
    me = broker.broker_id
    address = f"{broker.host}:{broker.port}"
    for other in image.brokers.values():
        if other.broker_id != me and (other.host.lower(), other.port) == (broker.host.lower(), broker.port):
            detail = f"broker {me} advertises {address}, and so does broker {other.broker_id}"
            return _failed(me, "listener", "endpoint_in_use", detail)
    if heard.controller_reaches is None:
        return _pending(me, "listener", f"the controller has not tried {address} yet")
    if not heard.controller_reaches:
        detail = f"the controller can't connect to broker {me} at {address}"
        return _failed(me, "listener", "listener_unreachable", detail)
    return _passed(me, "listener", f"the controller reaches {address}")


def _peer_checks(
    image: ClusterImage,
    broker: BrokerRegistration,
    waiting: Sequence[BrokerRegistration],
    reports: Reports,
    *,
    limits: PreflightLimits,
    now_ms: int,
) -> Iterator[PreflightCheck]:
    """Yield the checks in both directions: the broker tries each peer, and each peer tries it. A check
    that was not made lately is pending."""
    me = broker.broker_id
    peers = [b for b in (*_live(image), *waiting) if b.broker_id != me]
    silent: list[int] = []
    bad = 0
    for peer in peers:
        for source, target in ((broker, peer), (peer, broker)):
            heard = _fresh(reports, source, limits, now_ms)
            reach = None if heard is None else _reach(heard.report, target)
            if reach is None:
                silent.append(source.broker_id)
            elif reach.failure is not None:
                bad += 1
                detail = (
                    f"broker {source.broker_id} can't work with broker {target.broker_id} "
                    f"at {target.host}:{target.port}: {reach.detail}"
                )
                yield _failed(me, "peers", reach.failure.value, detail)
    if silent:
        who = ", ".join(map(str, dict.fromkeys(silent)))
        yield _pending(me, "peers", f"brokers that have not said yet whom they reach: {who}")
    elif not bad:
        yield _passed(me, "peers", f"{len(peers)} peers reach it, and it reaches them")


def _reach(report: PreflightReport, target: BrokerRegistration) -> PeerReach | None:
    for reach in report.peers:
        if (reach.broker_id, reach.broker_epoch) == (target.broker_id, target.broker_epoch):
            return reach
    return None


def _rack_check(
    image: ClusterImage, broker: BrokerRegistration, waiting: Sequence[BrokerRegistration]
) -> PreflightCheck:
    """Racks count only where all have one: a broker without is placed as if it stood alone."""
    me = broker.broker_id
    others = [b for b in image.brokers.values() if b.admitted and b.broker_id != me]
    others += [b for b in waiting if b.broker_id != me]
    named = [b for b in others if b.rack is not None]
    if broker.rack is None and named:
        detail = (
            f"broker {me} names no rack, and broker {named[0].broker_id} is in rack {named[0].rack!r}: "
            "start it with one, or PATCH one onto it"
        )
        return _failed(me, "rack", "rack_missing", detail)
    if broker.rack is not None and others and not named:
        detail = (
            f"broker {me} is in rack {broker.rack!r}, and no other broker names one: "
            f"give broker {others[0].broker_id} and the others theirs first"
        )
        return _failed(me, "rack", "rack_unexpected", detail)
    return _passed(me, "rack", "no racks are named" if broker.rack is None else f"in rack {broker.rack!r}")


def _passed(broker_id: int, name: str, detail: str) -> PreflightCheck:
    return PreflightCheck(broker_id=broker_id, name=name, state=CheckState.PASSED, detail=detail)


def _failed(broker_id: int, name: str, code: str, detail: str) -> PreflightCheck:
    return PreflightCheck(broker_id=broker_id, name=name, state=CheckState.FAILED, code=code, detail=detail)


def _pending(broker_id: int, name: str, detail: str) -> PreflightCheck:
    return PreflightCheck(
        broker_id=broker_id, name=name, state=CheckState.PENDING, code="preflight_pending", detail=detail
    )
