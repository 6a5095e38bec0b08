"""A group's coordinator asks that of a transaction, and takes in what it says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from coordinator.core.offsets_question import OffsetsQuestion
from coordinator.shell import peer_link
from coordinator.shell.peer_link import TransactionLink
from springtide.node.sharding import GROUPS_TOPIC
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

pytestmark = pytest.mark.anyio

OWNER = SimpleNamespace(broker_id=1001)


class World:
    """One coordinator of all transactional ids. errors: of partitions; error: of the whole."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.owner: object | None = OWNER
        self.asked: list[AddPartitionsToTxnRequest] = []
        self.errors: dict[int, ErrorCode] = {}
        self.error = ErrorCode.NONE
        self.is_silent = False
        view = SimpleNamespace(
            topic_by_name=lambda name: SimpleNamespace(partitions=50),
            shard_owner=lambda topic, shard: self.owner,
            coordinators={1001: OWNER},
        )
        self.link = TransactionLink(
            view=cast(Any, view),
            links=cast(Any, SimpleNamespace(ask=self._ask)),
            spawn=cast(Any, nursery.start_soon),
        )
        self.answers: list[ErrorCode] = []

    def ask(self, transactional_id: str, partition: int, *, epoch: int = 0, verify: bool = False) -> None:
        question = OffsetsQuestion(transactional_id, 7, epoch, partition, verify)
        self.link.ask(question, self.answers.append)

    async def _ask(self, peer: object, message: AddPartitionsToTxnRequest, *_: Any, **__: Any) -> Any:
        self.asked.append(message)
        await trio.sleep(0.001)
        if self.is_silent:
            return None
        return AddPartitionsToTxnResponse(
            error_code=self.error,
            results_by_transaction=tuple(
                AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id,
                    topic_results=tuple(
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=tuple(
                                AddPartitionsToTxnPartitionResult(
                                    partition_index=number,
                                    partition_error_code=self.errors.get(number, ErrorCode.NONE),
                                )
                                for number in topic.partitions
                            ),
                        )
                        for topic in one.topics
                    ),
                )
                for one in message.transactions
            ),
        )


async def in_world(story: Callable[[World], Awaitable[None]]) -> None:
    async with trio.open_nursery() as nursery:
        await story(World(nursery))
        nursery.cancel_scope.cancel()


async def test_questions_of_one_turn_are_one_request() -> None:
    async def story(world: World) -> None:
        world.errors[4] = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        world.ask("a", 3)
        world.ask("a", 4)
        world.ask("b", 3, verify=True)
        await trio.sleep(1)
        assert world.answers == [ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.NONE]
        (message,) = world.asked
        told = [
            (one.transactional_id, one.verify_only, one.topics[0].partitions) for one in message.transactions
        ]
        assert told == [("a", False, (3, 4)), ("b", True, (3,))]
        assert {one.topics[0].name for one in message.transactions} == {GROUPS_TOPIC}

    await in_world(story)


async def test_what_does_not_fit_into_one_entry_goes_in_the_next_request() -> None:
    async def story(world: World) -> None:
        world.ask("a", 3, epoch=1)
        world.ask("a", 3, epoch=2)
        await trio.sleep(1)
        assert [[one.producer_epoch for one in message.transactions] for message in world.asked] == [[1], [2]]
        assert world.answers == [ErrorCode.NONE] * 2

    await in_world(story)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda world: setattr(world, "owner", None),
        lambda world: setattr(world, "is_silent", True),
        lambda world: setattr(world, "error", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        lambda world: world.errors.update({3: ErrorCode.NOT_COORDINATOR}),
        lambda world: world.errors.update({3: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}),
    ],
)
async def test_where_no_coordinator_answers_clients_try_again(spoil: Callable[[World], None]) -> None:
    async def story(world: World) -> None:
        spoil(world)
        world.ask("a", 3)
        await trio.sleep(1)
        assert world.answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]

    await in_world(story)


async def test_questions_without_an_answer_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_link, "QUESTIONS_MAX", 2)

    async def story(world: World) -> None:
        for partition in range(3):
            world.ask("a", partition)
        assert world.answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        await trio.sleep(1)
        world.ask("a", 4)
        await trio.sleep(1)
        assert world.answers[1:] == [ErrorCode.NONE] * 3

    await in_world(story)
