from __future__ import annotations

import itertools

import msgspec
import pytest

from controller.core.image import ClusterImage
from controller.core.records import BrokerRegistration, Cause, Change, MemberRecord
from controller.operations.advance import advance
from controller.operations.brokers import begin_broker_add
from controller.operations.model import (
    Blocked,
    BrokerAdd,
    BrokerToAdd,
    OperationState,
    StepState,
    Work,
)
from springtide.contract.epochs import BrokerEpoch
from tests.kit.controller.images import replay_all

ADD = begin_broker_add(
    BrokerAdd(
        brokers=(
            BrokerToAdd(broker_id=1, host="store1", port=9092),
            BrokerToAdd(broker_id=2, host="STORE2", port=9092, rack="r1"),
        ),
        mode="none",
    )
)
CHANGE = Change(cause=Cause.BROKER_REGISTERED, at_ms=0)


def image(*brokers: BrokerRegistration) -> ClusterImage:
    made = ClusterImage()
    replay_all(made, [MemberRecord(registration=broker, change=CHANGE) for broker in brokers])
    return made


def broker(
    broker_id: int, *, admitted: bool = False, fenced: bool = True, rack: str | None = "r1"
) -> BrokerRegistration:
    return BrokerRegistration(
        broker_id=broker_id,
        broker_epoch=BrokerEpoch(broker_id),
        incarnation_id="x",
        host=f"store{broker_id}",
        port=9092,
        rack=rack,
        admitted=admitted,
        fenced=fenced,
    )


def steps(work: Work) -> dict[str, StepState]:
    return {step.name: step.state for step in work.steps}


def test_nothing_is_admitted_until_every_broker_has_registered() -> None:
    for present in ((), (1,), (2,)):
        step = advance(
            ADD,
            OperationState.PREFLIGHT,
            image(*(broker(broker_id) for broker_id in present)),
            now_ms=0,
            deadline_at_ms=100,
        )
        assert (step.state, step.admit) == (OperationState.PREFLIGHT, ())
        assert [item.broker_id for item in step.work.blocked] == [b for b in (1, 2) if b not in present]
        assert {item.code for item in step.work.blocked} == {"broker_unreachable"}


def test_all_are_admitted_at_once_and_only_those_that_are_not_yet() -> None:
    both = advance(ADD, OperationState.PREFLIGHT, image(broker(1), broker(2)), now_ms=0, deadline_at_ms=100)
    assert (both.state, both.admit) == (OperationState.RUNNING, (1, 2))
    one = advance(
        ADD,
        OperationState.PREFLIGHT,
        image(broker(1, admitted=True, fenced=False), broker(2)),
        now_ms=0,
        deadline_at_ms=100,
    )
    assert one.admit == (2,)


def test_it_has_succeeded_when_all_are_active_and_waits_for_the_rest() -> None:
    half = image(broker(1, admitted=True, fenced=False), broker(2, admitted=True))
    waiting = advance(ADD, OperationState.RUNNING, half, now_ms=0, deadline_at_ms=100)
    assert waiting.work.blocked == (
        Blocked(code="broker_not_active", broker_id=2, detail="broker 2 is admitted and fenced"),
    )
    whole = image(broker(1, admitted=True, fenced=False), broker(2, admitted=True, fenced=False))
    done = advance(ADD, OperationState.RUNNING, whole, now_ms=0, deadline_at_ms=100)
    assert done.state is OperationState.SUCCEEDED
    assert steps(done.work) == {
        "preflight": StepState.SUCCEEDED,
        "register": StepState.SUCCEEDED,
        "plan": StepState.SKIPPED,
        "move": StepState.SKIPPED,
        "elect": StepState.SKIPPED,
    }
    again = advance(done.work, OperationState.RUNNING, whole, now_ms=0, deadline_at_ms=100)
    assert again == done


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (msgspec.structs.replace(broker(2), host="store9"), "endpoint_mismatch"),
        (msgspec.structs.replace(broker(2), port=1), "endpoint_mismatch"),
        (broker(2, rack=None), "rack_mismatch"),
    ],
)
def test_a_broker_that_is_not_the_one_meant_fails_all(wrong: BrokerRegistration, code: str) -> None:
    step = advance(ADD, OperationState.PREFLIGHT, image(broker(1), wrong), now_ms=0, deadline_at_ms=100)
    assert step.work.error is not None
    assert (step.state, step.work.error.code, step.admit) == (OperationState.FAILED, code, ())
    assert steps(step.work)["preflight"] is StepState.FAILED


def test_after_the_deadline_nothing_is_admitted_whatever_has_registered() -> None:
    possible = [None, broker(1), broker(1, admitted=True), broker(1, admitted=True, fenced=False)]
    others = [None, broker(2), broker(2, admitted=True), broker(2, admitted=True, fenced=False)]
    for first, second in itertools.product(possible, others):
        present = [found for found in (first, second) if found is not None]
        step = advance(ADD, OperationState.PREFLIGHT, image(*present), now_ms=100, deadline_at_ms=100)
        assert step.admit == ()
        active = len(present) == 2 and all(found.is_eligible for found in present)
        assert step.state is (OperationState.SUCCEEDED if active else OperationState.FAILED)
