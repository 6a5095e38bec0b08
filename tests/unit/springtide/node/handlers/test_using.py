"""A topic that clients name and that is not there: what they are told, and when its first use makes it."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from springtide.contract.administration import AdminOutcome, AdminResponse, CreateTopicsCall, TopicToCreate
from springtide.contract.errors import ControllerError
from springtide.contract.partition_state import TopicState
from springtide.contract.updates import UpdateBatch
from springtide.node.cluster_view import ClusterView
from springtide.node.first_use import BEGUN_MAX, LEFT_ALONE_MS, REFUSED_MAX, FirstUses
from springtide.node.handlers import metadata
from springtide.node.missing_topics import MissingTopics
from springtide.node.refusals import SOFTWARE_CHARS_MAX, TOLD_EVERY_MS
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.springtide.asking import answer_of

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
LAST = APIS[ApiKey.METADATA].version_max
MADE = AdminOutcome()
REFUSED = AdminOutcome(error_code=ErrorCode.POLICY_VIOLATION, message="names begin with the team's")


class Controller:
    """The way to a controller that answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.waiting: list[Any] = []

    def start(self, call: Any, *, done: Any, **_who: Any) -> None:
        self.asked.append(call)
        self.waiting.append(done)

    def answer(self, outcome: AdminOutcome) -> None:
        self.waiting.pop(0)(AdminResponse(outcomes=(outcome,)))

    @property
    def names(self) -> list[str]:
        return [topic.name for call in self.asked for topic in call.topics]


class Desk:
    """A process that clients ask for Metadata. configs: the cluster's."""

    def __init__(self, **configs: str) -> None:
        self.controller = Controller()
        self.now_ms = 0
        self.view = ClusterView()
        self.view.apply(
            UpdateBatch(
                sequence=1,
                full=True,
                cluster_configs={name.replace("_", "."): value for name, value in configs.items()},
                topics=(
                    TopicState(
                        topic_id="A" * 22, topic="gone", partitions=1, replication_factor=1, deleting=True
                    ),
                ),
            ),
            now_ms=0,
        )
        self.context: Any = SimpleNamespace(
            view=self.view,
            is_view_complete=lambda: True,
            may_judge=lambda: True,
            administration=self.controller,
            first_uses=FirstUses(),
            missing_topics=MissingTopics(),
            mono_ms=lambda: self.now_ms,
        )

    def ask(self, *names: str, version: int = LAST, allow: bool = True, **asked: Any) -> list[int]:
        fields: dict[str, Any] = {"topics": [{"topic_id": None, "name": name} for name in names]}
        if version >= metadata.ALLOWS_SINCE:
            fields["allow_auto_topic_creation"] = allow
        asked = {"context": self.context, "now_ms": self.now_ms} | asked
        answer = answer_of(metadata.handle, ApiKey.METADATA, version, fields, **asked)
        return [topic.error_code for topic in answer.topics]


def open_desk(**configs: str) -> Desk:
    return Desk(auto_create_topics_enable="true", **configs)


@pytest.mark.parametrize("version", range(LAST + 1))
def test_a_first_use_asks_the_controller_once_with_the_clusters_defaults(version: int) -> None:
    desk = open_desk()
    assert desk.ask("orders", version=version) == [UNKNOWN]
    assert desk.ask("orders", "orders", version=version) == [UNKNOWN, UNKNOWN]
    assert desk.controller.asked == [
        CreateTopicsCall(topics=(TopicToCreate(name="orders"),), on_first_use=True)
    ]


@pytest.mark.parametrize("version", range(metadata.ALLOWS_SINCE, LAST + 1))
def test_a_client_that_only_looks_makes_nothing(version: int) -> None:
    desk = open_desk()
    assert desk.ask("orders", version=version, allow=False) == [UNKNOWN]
    assert desk.controller.asked == []


@pytest.mark.parametrize("configs", [{}, {"auto_create_topics_enable": "false"}])
def test_it_is_off_unless_it_is_set(configs: dict[str, str]) -> None:
    desk = Desk(**configs)
    assert desk.ask("orders", version=0) == [UNKNOWN]
    assert desk.controller.asked == []


@pytest.mark.parametrize("allow", [True, False])
def test_a_topic_that_is_not_there_is_told(allow: bool, caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    for _ in range(3):
        desk.ask("orders", allow=allow)
    (line,) = caplog.messages
    assert "topic_missing topic=orders asked=3" in line and "client_id=client" in line


def test_a_topic_that_is_being_made_is_not_missing(caplog: pytest.LogCaptureFixture) -> None:
    desk = open_desk()
    for _ in range(10):
        desk.ask("orders")
    assert caplog.messages == []


def test_no_name_that_cant_be_one_is_asked_for() -> None:
    desk = open_desk()
    assert desk.ask("no/name", "..", "") == [ErrorCode.INVALID_TOPIC_EXCEPTION] * 3
    assert desk.controller.asked == []


def test_a_name_that_is_being_deleted_is_asked_for_and_the_controller_waits_until_it_is_free() -> None:
    desk = open_desk()
    assert desk.ask("gone") == [UNKNOWN]
    assert desk.controller.names == ["gone"]


@pytest.mark.parametrize("outcome", [MADE, AdminOutcome(error_code=ErrorCode.TOPIC_ALREADY_EXISTS)])
def test_a_name_is_asked_for_anew_once_it_was_made_and_is_gone_again(outcome: AdminOutcome) -> None:
    desk = open_desk()
    desk.ask("orders")
    desk.controller.answer(outcome)
    desk.ask("orders")
    assert desk.controller.names == ["orders", "orders"]


def test_a_refused_name_is_left_alone_for_a_while_and_told_once_an_hour(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = open_desk()

    def told() -> list[str]:
        return [line for line in caplog.messages if line.startswith("first_use_refused")]

    desk.ask("orders")
    desk.controller.answer(REFUSED)
    (line,) = told()
    assert line == (
        "first_use_refused topic=orders error=POLICY_VIOLATION client_id=client "
        "reason=names begin with the team's"
    )
    desk.now_ms = LEFT_ALONE_MS - 1
    desk.ask("orders", "payments")
    assert desk.controller.names == ["orders", "payments"]
    desk.now_ms = LEFT_ALONE_MS
    desk.ask("orders")
    assert desk.controller.names == ["orders", "payments", "orders"]
    desk.controller.answer(MADE)
    desk.controller.answer(REFUSED)
    assert len(told()) == 1
    desk.now_ms = TOLD_EVERY_MS
    desk.ask("orders")
    desk.controller.answer(REFUSED)
    assert len(told()) == 2


def test_what_a_stranger_calls_itself_is_cut_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    desk = open_desk()
    desk.ask("orders", client_id="x" * 30_000)
    desk.controller.answer(REFUSED)
    (line,) = (line for line in caplog.messages if line.startswith("first_use_refused"))
    assert f"client_id={'x' * SOFTWARE_CHARS_MAX} reason=" in line


def test_few_are_made_at_a_time_and_refused_names_have_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    desk = open_desk()
    assert desk.ask(*(f"t{number}" for number in range(100))) == [UNKNOWN] * 100
    assert len(desk.controller.asked) == BEGUN_MAX
    uses = FirstUses()
    with caplog.at_level(logging.CRITICAL):
        for number in range(REFUSED_MAX + 1):
            assert uses.begin(f"t{number}", now_ms=0)
            uses.refuse(f"t{number}", "POLICY_VIOLATION", "", client_id="", now_ms=0)
    assert uses.begin("t0", now_ms=0), "the oldest is forgotten"
    assert not uses.begin("t1", now_ms=0)


def test_when_no_controller_can_be_asked_it_is_tried_again_later() -> None:
    desk = open_desk()
    desk.ask("orders")
    desk.controller.waiting.pop()(AdminResponse(error=ControllerError.NOT_CONTROLLER))
    desk.ask("orders")
    assert desk.controller.names == ["orders"]
    desk.now_ms = LEFT_ALONE_MS
    desk.ask("orders")
    assert desk.controller.names == ["orders", "orders"]


def test_a_client_above_its_quota_makes_nothing() -> None:
    desk = open_desk(num_partitions="6")
    charged: list[int] = []

    def may_mutate(partitions: int, *, is_strict: bool) -> bool:
        charged.append(partitions)
        return not is_strict

    account = SimpleNamespace(may_mutate=may_mutate, throttle_time_ms=lambda: 0)
    assert desk.ask("orders", account=account) == [UNKNOWN]
    assert (charged, desk.controller.asked) == ([6], [])
