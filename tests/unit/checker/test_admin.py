"""Calls about topics: some order explains them, or none does."""

from __future__ import annotations

from random import Random

from tests.checker import admin
from tests.checker.builder import At, HistoryBuilder
from tests.checker.check import check
from tests.checker.history import AdminAction, AdminCall, Outcome
from tests.checker.verdict import Kind, Verdict

CREATE, DELETE = AdminAction.CREATE, AdminAction.DELETE
CONFIGURE, DESCRIBE = AdminAction.CONFIGURE, AdminAction.DESCRIBE
OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO


class Calls:
    """Calls about one topic, one after the other unless told when."""

    def __init__(self) -> None:
        self.builder = HistoryBuilder()

    def call(
        self,
        action: AdminAction,
        type: Outcome = OK,
        *,
        configs: dict[str, str] | None = None,
        exists: bool | None = None,
        at: At | None = None,
    ) -> None:
        call = AdminCall(action=action, topic="orders", configs=configs or {}, exists=exists)
        self.builder.admin("a", call, type=type, at=at)

    def check(self) -> Verdict:
        return check(self.builder.history())


def test_a_topics_life_in_sequence_is_explained() -> None:
    calls = Calls()
    calls.call(DESCRIBE, exists=False)
    calls.call(CREATE, configs={"retention.ms": "1"})
    calls.call(CREATE, FAIL, exists=True)
    calls.call(CONFIGURE, configs={"retention.ms": "", "segment.bytes": "5"})
    calls.call(DESCRIBE, configs={"segment.bytes": "5"}, exists=True)
    calls.call(DELETE)
    calls.call(DELETE, FAIL, exists=False)
    calls.call(DESCRIBE, exists=False)
    assert not calls.check().anomalies


def test_of_two_creates_at_once_one_may_win() -> None:
    calls = Calls()
    calls.call(CREATE, at=(0, 10))
    calls.call(CREATE, FAIL, exists=True, at=(0, 9))
    assert not calls.check().anomalies


def test_two_creates_at_once_may_not_both_win() -> None:
    calls = Calls()
    calls.call(CREATE, at=(0, 10))
    calls.call(CREATE, at=(0, 9))
    assert calls.check().bad == {Kind.ADMIN_NOT_LINEARIZABLE: 1}


def test_a_storm_of_equal_creates_is_decided_quickly() -> None:
    for winners in (1, 2):
        calls = Calls()
        for number in range(500):
            if number < winners:
                calls.call(CREATE, at=(0, 1000 + number))
            else:
                calls.call(CREATE, FAIL, exists=True, at=(0, 1000 - number))
        assert calls.check().is_bad == (winners > 1)


def test_a_setting_once_answered_is_there() -> None:
    calls = Calls()
    calls.call(CREATE)
    calls.call(CONFIGURE, configs={"a": "1"})
    calls.call(CONFIGURE, configs={"b": "2"})
    calls.call(DESCRIBE, configs={"b": "2"}, exists=True)
    assert calls.check().bad == {Kind.ADMIN_NOT_LINEARIZABLE: 1}


def test_a_call_of_unknown_outcome_may_take_effect_late_or_never() -> None:
    for is_there in (True, False):
        calls = Calls()
        calls.call(CREATE, INFO)
        calls.call(DESCRIBE, exists=False)
        calls.call(DESCRIBE, exists=is_there)
        assert not calls.check().anomalies


def test_a_call_of_unknown_outcome_takes_effect_once_and_not_before_it_began() -> None:
    calls = Calls()
    calls.call(DESCRIBE, exists=True)
    calls.call(CREATE, INFO)
    assert calls.check().is_bad
    calls = Calls()
    calls.call(CREATE, INFO)
    calls.call(DESCRIBE, exists=True)
    calls.call(DELETE)
    calls.call(DESCRIBE, exists=True)
    assert calls.check().is_bad


def test_a_refusal_that_proves_nothing_is_no_part_of_it() -> None:
    calls = Calls()
    calls.call(CREATE, FAIL)
    calls.call(DELETE, FAIL)
    assert not calls.check().anomalies


def test_a_topic_that_would_take_too_long_is_counted() -> None:
    calls = Calls()
    calls.call(CREATE, at=(0, 0))
    for number in range(24):
        calls.call(CONFIGURE, INFO, configs={f"c{number}": "1"}, at=(1, 2))
    calls.call(DESCRIBE, configs={"no": "such"}, exists=True, at=(3, 4))
    original, admin.STEPS_MAX = admin.STEPS_MAX, 5_000
    try:
        verdict = calls.check()
    finally:
        admin.STEPS_MAX = original
    assert verdict.counted == {Kind.ADMIN_UNDECIDED: 1}
    assert not verdict.is_bad


def test_long_concurrent_histories_of_a_true_topic_are_explained() -> None:
    """Each call takes effect at a moment within its interval, and is answered as that moment demands."""
    for seed in range(20):
        random = Random(seed)
        calls = Calls()
        state: dict[str, str] | None = None
        for number in range(300):
            at = (max(0, number * 10 - random.randint(0, 30)), number * 10 + random.randint(0, 30))
            kind = OK if random.random() < 0.97 else INFO
            action = random.choice([CREATE, DELETE, CONFIGURE, CONFIGURE, DESCRIBE, DESCRIBE])
            if action is DESCRIBE:
                calls.call(DESCRIBE, configs=state, exists=state is not None, at=at)
            elif (action is CREATE) == (state is not None):
                calls.call(action, FAIL, exists=state is not None, at=at)
            elif action is CREATE:
                state = {}
                calls.call(CREATE, kind, at=at)
            elif action is DELETE:
                state = None
                calls.call(DELETE, kind, at=at)
            elif state is not None:
                change = {random.choice("xyz"): str(number)}
                state = {**state, **change}
                calls.call(CONFIGURE, kind, configs=change, at=at)
        verdict = calls.check()
        assert not verdict.anomalies, f"seed {seed}\n{verdict.report()}"
