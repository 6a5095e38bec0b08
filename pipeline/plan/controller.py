"""The questions that a plan has for a controller, and the plan that it makes. A thin shell over the
`springtide` command's client: retries, redirects and idempotency keys are its."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

import msgspec

from pipeline.client.broker_questions import LogDir, describe_log_dirs
from pipeline.client.config import ClientConfig, parse_bootstrap
from pipeline.client.errors import ClientError
from pipeline.plan.documents import (
    BrokerItem,
    BrokerPage,
    MoveItem,
    MovePage,
    NothingToDo,
    OperationItem,
    OperationPage,
    PartitionItem,
    PartitionPage,
    PlanItem,
    PlannedMovePage,
)
from pipeline.plan.eta import Past, past_of
from springtide.cli.call import Call, address, get
from springtide.cli.client import Controllers, Refused

PAGE_LIMIT: Final = 1_000
READS_MAX: Final = 3
"""Times that a list is read which others are changing."""
KINDS: Final = ("plan_execution", "broker_drain", "broker_add", "replication_factor_change")
"""Operations that write down when each of their moves began and ended."""
OPERATIONS_MAX: Final = 20
"""Of each kind, the latest."""
MOVES_MAX: Final = 20_000
ASK_AT_ONCE: Final = 16
CONNECT_MS: Final = 5_000
PLAN_SECONDS_MAX: Final = 180.0
"""For an answer: 100,000 partitions on 100 brokers take a controller some fifteen."""

T = TypeVar("T")


class _Page(Protocol[T]):
    items: list[T]


class ClusterReader:
    """Of one cluster. Every method raises Refused or Unreachable."""

    def __init__(self, controllers: Controllers, cluster: str) -> None:
        self._controllers = controllers
        self._cluster = cluster

    def brokers(self) -> list[BrokerItem]:
        return list(self._items(get("clusters", self._cluster, "brokers"), BrokerPage))

    def partitions(self) -> list[PartitionItem]:
        """All of them, as the active controller knows them: a standby does not hear of sizes and offsets.

        The list is ordered by state, so that a partition whose state changes while it is read may come twice
        or not at all: it is read again until it has as many as the cluster.
        """
        call = replace(get("clusters", self._cluster, "partitions"), needs_active=True)
        found: dict[tuple[str, int], PartitionItem] = {}
        for _ in range(READS_MAX):
            found = {(item.topic_id, item.partition): item for item in self._items(call, PartitionPage)}
            told = self._controllers.send(get("clusters", self._cluster, "replication")).document()
            if told.get("partitions") == len(found):
                break
        return list(found.values())

    def past_operations(self) -> list[Past]:
        """Those that moved replicas and succeeded."""
        found = []
        for kind in KINDS:
            call = get("operations", cluster=self._cluster, kind=kind, state="succeeded")
            for operation in self._items(call, OperationPage, limit=OPERATIONS_MAX):
                past = past_of(self._moves(operation), operation.progress.throttle_bytes_per_s)
                if past is not None:
                    found.append(past)
        return found

    def _moves(self, operation: OperationItem) -> Iterable[MoveItem]:
        return self._items(get("operations", operation.id, "moves"), MovePage, limit=MOVES_MAX)

    def make_plan(self, body: Mapping[str, Any], *, pins: Sequence[int], keep: bool) -> PlanItem:
        """The controller's plan with all its moves; with `keep` it is there afterwards, to be executed.

        pins: epochs of all partitions. The same request about the same state, kept twice, is one plan: its
        idempotency key follows from both.
        """
        call = Call(
            method="POST",
            path=address("clusters", self._cluster, "plans"),
            query={} if keep else {"dry_run": "true"},
            body=dict(body),
            answer_s_max=PLAN_SECONDS_MAX,
        )
        said = json.dumps([self._cluster, body, list(pins)], sort_keys=True, separators=(",", ":"))
        key = "plan-" + hashlib.sha256(said.encode()).hexdigest()[:40]
        try:
            plan = self._controllers.send(call, key=key if keep else None).parse(PlanItem)
        except Refused as refused:
            return _nothing_to_do(refused)
        if plan.id is None or plan.totals.moves <= len(plan.moves):
            return plan
        moves = self._items(get("clusters", self._cluster, "plans", plan.id, "moves"), PlannedMovePage)
        return msgspec.structs.replace(plan, moves=list(moves))

    def _items(self, call: Call, page: type[_Page[T]], *, limit: int | None = None) -> Iterable[T]:
        for reply in self._controllers.pages(call, page_limit=PAGE_LIMIT, limit=limit):
            yield from reply.parse(page).items


def _nothing_to_do(refused: Refused) -> PlanItem:
    try:
        return msgspec.json.decode(refused.body, type=NothingToDo).facts
    except msgspec.DecodeError:
        raise refused from None


AskDisks = Callable[[BrokerItem], int | None]


def free_bytes(brokers: Sequence[BrokerItem], ask: AskDisks) -> dict[int, int]:
    """By broker, of those that tell."""
    serving = [item for item in brokers if item.state == "active"]
    with ThreadPoolExecutor(ASK_AT_ONCE) as several:
        told = several.map(ask, serving)
        return {item.broker_id: free for item, free in zip(serving, told, strict=True) if free is not None}


def ask_disks(item: BrokerItem) -> int | None:
    """Free bytes of a broker's log directory, by the address that the controller has of it. None: it can't
    be reached, or tells nothing."""
    try:
        addresses = parse_bootstrap(item.endpoint)
        config = ClientConfig(bootstrap=addresses, client_id="pipeline-plan", connect_timeout_ms=CONNECT_MS)
        return least_free(describe_log_dirs(addresses[0], config))
    except ClientError:
        return None


def least_free(directories: Iterable[LogDir]) -> int | None:
    """Directories may share a file system, so what they tell is not added up."""
    told = [one.usable_bytes for one in directories if one.usable_bytes is not None]
    return min(told, default=None)
