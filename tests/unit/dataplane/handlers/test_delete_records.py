"""DeleteRecords: each partition is asked for and answered by itself, in every version."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dataplane.core.effects import NO_EFFECTS, Effects
from dataplane.core.results import DeletionResult
from dataplane.handlers.context import BrokerContext
from dataplane.handlers.table import HANDLERS
from springtide.contract.administration import (
    AdminOutcome,
    AdminResponse,
    DeleteRecordsCall,
    RecordsBefore,
    RecordsToDelete,
)
from springtide.contract.errors import ControllerError
from springtide.node.handlers.context import Request
from springtide.wire import codec
from springtide.wire.apis import APIS, ApiKey, response_header_version
from springtide.wire.errors import ErrorCode

NOW_MS = 77
KEY = ApiKey.DELETE_RECORDS
VERSIONS = range(APIS[KEY].version_min, APIS[KEY].version_max + 1)


class Role:
    """A leader that gives this result; a waiter is kept."""

    refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER

    def __init__(self, result: DeletionResult, *, leads: bool = True) -> None:
        self.result = result
        self.leads = leads
        self.asked: list[tuple[int, int]] = []
        self.waiter: Callable[[DeletionResult], None]

    def may_serve(self, now_ms: int) -> bool:
        assert now_ms == NOW_MS
        return self.leads

    def delete_records(
        self, before_offset: int, *, waiter: Any, expires_ms: int, now_ms: int
    ) -> tuple[DeletionResult, Effects]:
        self.asked.append((before_offset, expires_ms - NOW_MS))
        self.waiter = waiter
        return self.result, NO_EFFECTS


class Table:
    """The partitions of topic "orders" that this broker hosts."""

    def __init__(self, *roles: Role) -> None:
        self.roles = roles
        self.noted: list[Any] = []
        self.note_waiters = self.noted.append

    def get_by_name(self, topic: str, partition: int) -> Any:
        if topic != "orders" or not 0 <= partition < len(self.roles):
            return None
        return SimpleNamespace(replica=SimpleNamespace(role=self.roles[partition]))

    def run(self, hosted: Any, effects: Effects) -> None:
        assert effects == NO_EFFECTS


class View:
    """It has "orders" with five partitions, and nothing else."""

    def topic_by_name(self, name: str) -> Any:
        return SimpleNamespace(topic_id="id") if name == "orders" else None

    def state(self, topic_id: str, partition: int) -> Any:
        return "a state" if topic_id == "id" and 0 <= partition < 5 else None


class Asking:
    """One request, and a controller that gives these outcomes."""

    def __init__(
        self,
        table: Table,
        *partitions: tuple[str, int, int],
        outcomes: tuple[AdminOutcome, ...] = (AdminOutcome(),),
        error: ControllerError = ControllerError.NONE,
        version: int = 2,
    ) -> None:
        self.calls: list[DeleteRecordsCall] = []
        self.version = version
        self._sent: list[bytes] = []
        fields = {
            "topics": [
                {"name": topic, "partitions": [{"partition_index": number, "offset": offset}]}
                for topic, number, offset in partitions
            ],
            "timeout_ms": 5_000,
        }

        def start(call: DeleteRecordsCall, *, done: Callable[[AdminResponse], None], **_: Any) -> None:
            self.calls.append(call)
            done(AdminResponse(error=error, outcomes=outcomes))

        connection = SimpleNamespace(client_id="ops", peer="10.0.0.1")
        answer = SimpleNamespace(
            complete=lambda chunks: self._sent.append(b"".join(chunks)), connection=connection
        )
        request = Request(
            api_key=KEY,
            api_version=version,
            correlation_id=9,
            frame=memoryview(codec.encode(codec.build(codec.request_type(KEY, version), fields))),
            body_position=0,
            answer=cast(Any, answer),
            now_ms=NOW_MS,
        )
        context = SimpleNamespace(
            table=table,
            effects=table,
            view=View(),
            is_view_complete=lambda: True,
            may_judge=lambda: True,
            administration=SimpleNamespace(start=start),
            mono_ms=lambda: NOW_MS,
        )
        HANDLERS[KEY](cast(BrokerContext, context), request)

    @property
    def told(self) -> list[tuple[str, int, int, int]] | None:
        """(topic, partition, error code, low watermark), once it is answered."""
        if not self._sent:
            return None
        (frame,) = self._sent
        position = 8 + response_header_version(KEY, self.version)
        message = cast(Any, codec.decode(codec.response_type(KEY, self.version), frame, position))
        return [
            (topic.name, one.partition_index, int(one.error_code), one.low_watermark)
            for topic in message.topics
            for one in topic.partitions
        ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_deletion_is_answered_with_the_low_watermark_when_all_have_it(version: int) -> None:
    role = Role(DeletionResult(ErrorCode.NONE, is_waiting=True))
    table = Table(role)
    asking = Asking(table, ("orders", 0, 3), version=version)
    assert asking.calls == [
        DeleteRecordsCall(
            topics=(
                RecordsToDelete(topic="orders", partitions=(RecordsBefore(partition=0, before_offset=3),)),
            )
        )
    ]
    assert role.asked == [(3, 5_000)]
    assert len(table.noted) == 1
    assert asking.told is None
    role.waiter(DeletionResult(ErrorCode.NONE, 3))
    assert asking.told == [("orders", 0, 0, 3)]


def test_partitions_fail_one_by_one_and_only_those_led_here_are_asked_for() -> None:
    table = Table(
        Role(DeletionResult(ErrorCode.NONE, 7)),
        Role(DeletionResult(ErrorCode.OFFSET_OUT_OF_RANGE)),
        Role(DeletionResult(ErrorCode.NONE), leads=False),
    )
    asking = Asking(
        table,
        *(("orders", number, 7) for number in (0, 1, 2, 4, 5)),
        ("elsewhere", 0, -1),
        ("a/b", 0, -1),
    )
    assert asking.calls[0].topics == (
        RecordsToDelete(
            topic="orders",
            partitions=(
                RecordsBefore(partition=0, before_offset=7),
                RecordsBefore(partition=1, before_offset=7),
            ),
        ),
    )
    assert asking.told == [
        ("orders", 0, 0, 7),
        ("orders", 1, ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        ("orders", 2, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
        ("orders", 4, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),  # it exists, on other brokers
        ("orders", 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("elsewhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("a/b", 0, ErrorCode.INVALID_TOPIC_EXCEPTION, -1),
    ]


def test_a_partition_named_twice_is_deleted_from_by_neither() -> None:
    role = Role(DeletionResult(ErrorCode.NONE, 3))
    asking = Asking(Table(role), ("orders", 0, 1), ("orders", 0, 3))
    assert asking.told == [("orders", 0, ErrorCode.INVALID_REQUEST, -1)] * 2
    assert (role.asked, asking.calls) == ([], [])


@pytest.mark.parametrize(
    ("outcomes", "error", "code"),
    [
        ((AdminOutcome(error_code=44, message="protected"),), ControllerError.NONE, 44),
        ((AdminOutcome(error_code=31, message="tokens"),), ControllerError.NONE, 31),
        ((), ControllerError.NOT_CONTROLLER, 41),
    ],
)
def test_what_the_controller_does_not_permit_is_not_deleted(
    outcomes: tuple[AdminOutcome, ...], error: ControllerError, code: int
) -> None:
    role = Role(DeletionResult(ErrorCode.NONE, 3))
    asking = Asking(Table(role), ("orders", 0, 3), outcomes=outcomes, error=error)
    assert asking.told == [("orders", 0, code, -1)]
    assert role.asked == []


def test_a_request_for_nothing_is_answered_with_nothing() -> None:
    assert Asking(Table()).told == []
