"""A plan's questions to a controller, and the plan that the controller makes. Retries, redirects and
idempotency keys are those of the `springtide` command's client."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec

from pipeline.client.client import describe_log_dirs
from pipeline.client.config import ClientConfig, parse_bootstrap
from pipeline.client.errors import ClientError
from pipeline.client.security import PLAIN, ClientSecurity
from pipeline.client.values import BrokerLogDir
from pipeline.plan.documents import (
    BrokerItem,
    Items,
    MoveItem,
    NothingToDo,
    OperationItem,
    PartitionItem,
    PlanItem,
    PlannedMoveItem,
)
from pipeline.plan.eta import Past, past_of
from springtide.cli.call import Call, address, get
from springtide.cli.client import Controllers, RequestRefused

PAGE_LIMIT: Final = 1_000
READS_MAX: Final = 3
"""Tries to read a list that changes meanwhile."""
KINDS: Final = ("plan_execution", "broker_drain", "broker_add", "replication_factor_change")
"""Operations that record when each of their moves began and ended."""
OPERATIONS_MAX: Final = 20
"""The latest operations of each kind."""
MOVES_MAX: Final = 20_000
ASK_AT_ONCE: Final = 16
CONNECT_MS: Final = 5_000
PLAN_SECONDS_MAX: Final = 180.0
"""Longest wait for a plan; a controller needs some 15 s for 100,000 partitions on 100 brokers."""

T = TypeVar("T")


class ClusterReader:
    """One cluster at its controllers. Every method raises Refused or Unreachable."""

    def __init__(self, controllers: Controllers, cluster: str) -> None:
        self._controllers = controllers
        self._cluster = cluster

    def brokers(self) -> list[BrokerItem]:
        return list(self._items(get("clusters", self._cluster, "brokers"), Items[BrokerItem]))

    def partitions(self) -> list[PartitionItem]:
        """Return all partitions as the active controller knows them: a standby has no sizes and offsets. A
        partition whose state changes meanwhile may be in the list twice or not at all, so it is read until
        its length is the cluster's."""
        call = replace(get("clusters", self._cluster, "partitions"), needs_active=True)
        found: dict[tuple[str, int], PartitionItem] = {}
        for _ in range(READS_MAX):
            found = {
                (item.topic_id, item.partition): item for item in self._items(call, Items[PartitionItem])
            }
            told = self._controllers.send(get("clusters", self._cluster, "replication")).document()
            if told.get("partitions") == len(found):
                break
        return list(found.values())

    def past_operations(self) -> list[Past]:
        """Return the operations that moved replicas and succeeded."""
        found = []
        for kind in KINDS:
            call = get("operations", cluster=self._cluster, kind=kind, state="succeeded")
            for operation in self._items(call, Items[OperationItem], limit=OPERATIONS_MAX):
                moves = self._items(
                    get("operations", operation.id, "moves"), Items[MoveItem], limit=MOVES_MAX
                )
                past = past_of(moves, operation.progress.throttle_bytes_per_s)
                if past is not None:
                    found.append(past)
        return found

    def make_plan(self, body: Mapping[str, Any], *, pins: Sequence[int], keep: bool) -> PlanItem:
        """Return the controller's plan with all its moves; with `keep` the controller keeps it to be
        executed. pins: epochs of all partitions, which with the body give the idempotency key: the same
        request about the same state is one plan."""
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
        except RequestRefused as refused:
            return _nothing_to_do(refused)
        if plan.id is None or plan.totals.moves <= len(plan.moves):
            return plan
        moves = self._items(get("clusters", self._cluster, "plans", plan.id, "moves"), Items[PlannedMoveItem])
        return msgspec.structs.replace(plan, moves=list(moves))

    def _items(self, call: Call, page: type[Items[T]], *, limit: int | None = None) -> Iterable[T]:
        for reply in self._controllers.pages(call, page_limit=PAGE_LIMIT, limit=limit):
            yield from reply.parse(page).items


def _nothing_to_do(refused: RequestRefused) -> PlanItem:
    try:
        return msgspec.json.decode(refused.body, type=NothingToDo).facts
    except msgspec.DecodeError:
        raise refused from None


AskDisks = Callable[[BrokerItem], int | None]


def free_bytes(brokers: Sequence[BrokerItem], ask: AskDisks) -> dict[int, int]:
    """Return free bytes by broker, of those that tell."""
    serving = [item for item in brokers if item.state == "active"]
    with ThreadPoolExecutor(ASK_AT_ONCE) as several:
        told = several.map(ask, serving)
        return {item.broker_id: free for item, free in zip(serving, told, strict=True) if free is not None}


def ask_disks(item: BrokerItem, security: ClientSecurity = PLAIN) -> int | None:
    """Return the free bytes of a broker's log directory; None if it can't be reached, or does not tell."""
    try:
        addresses = parse_bootstrap(item.endpoint)
        config = ClientConfig(
            addresses, client_id="pipeline-plan", connect_timeout_ms=CONNECT_MS, security=security
        )
        return least_free(describe_log_dirs(addresses[0], config))
    except ClientError:
        return None


def least_free(directories: Iterable[BrokerLogDir]) -> int | None:
    """Return the least free bytes: directories may share a file system, so they are not added up."""
    told = [one.usable_bytes for one in directories if one.usable_bytes is not None]
    return min(told, default=None)
