"""After a round: nothing was changed without its row, nothing was told that did not happen.

For every write that was asked: what was done has one row that says so, what was refused has at most one, and
it says refused; reads and dry runs have none. The chain of hashes holds. And REST, ZooKeeper and the audit
tell the same of every partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controller.core.records import PartitionRecord, TopicRecord
from controller.shell.metadata_store import ClusterStore
from springtide.contract.partition_state import NO_LEADER, PartitionState
from tests.checker.history import Key
from tests.checker.placement import Partition, check_placement
from tests.hostile.world import CLUSTER, World
from tests.kit.admin_api.rest import Rest
from tests.kit.controller.shell import seeded_ids
from tests.kit.memory.zookeeper import MemoryZooKeeper

FACTS = ("leader", "leader_epoch", "partition_epoch", "isr", "elr", "replicas", "adding_replicas")
PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as its sender knows it. is_audited: it was to change something and was no dry run, or was
    a look at records."""

    line: str
    request_id: str
    is_audited: bool
    status: int
    is_replay: bool


async def complaints(world: World, asked: list[Asked]) -> list[str]:
    """What does not fit; empty when all does."""
    rest = world.rest
    await rest.clock.sleep_ms(2_000)
    world.freeze()
    await rest.outbox.flush()
    rows = await everything(rest, "/audit")
    wrong = check_requests(asked, rows)
    for cluster in rest.engine.clusters():
        found = (await rest.client.get("/audit/verification", params={"cluster": cluster})).json()
        if not found.get("ok"):
            wrong.append(f"the audit's chain of {cluster} does not hold: {found}")
    if CLUSTER in rest.engine.clusters():
        wrong += await differences(rest, world.zookeeper)
    return wrong


def check_requests(asked: list[Asked], rows: list[dict[str, Any]]) -> list[str]:
    told: dict[str, list[str]] = {}
    for row in rows:
        if row["kind"] == "request" and row["outcome"] is not None:
            told.setdefault(row["request_id"], []).append(row["outcome"]["outcome"])
    wrong: list[str] = []
    for one in asked:
        outcomes = told.get(one.request_id, [])
        if one.is_replay or not one.is_audited:
            allowed: tuple[list[str], ...] = ([],)
        elif one.status < 300:
            allowed = (["succeeded"],)
        elif one.status < 500:
            allowed = ([], ["refused"])
        else:
            continue
        if outcomes not in allowed:
            wrong.append(f"{one.line} was answered {one.status} and is audited as {outcomes or 'nothing'}")
    return wrong


async def differences(rest: Rest, zookeeper: MemoryZooKeeper) -> list[str]:
    """Where REST and the audit tell something else of a partition than ZooKeeper. Of topics that are being
    deleted, REST shows the operation and no partitions."""
    truth: dict[Key, Partition] = {}
    deleting: set[str] = set()
    store = ClusterStore(meta=zookeeper.connect(), clock=rest.clock, ids=seeded_ids(), cluster=CLUSTER)
    await store.load()
    for record, _ in store.records():
        if isinstance(record, PartitionRecord):
            truth[(record.state.topic_id, record.state.partition)] = _facts(record.state)
        elif isinstance(record, TopicRecord) and record.state.deleting:
            deleting.add(record.state.topic_id)
    truth = {key: facts for key, facts in truth.items() if key[0] not in deleting}
    shown = await everything(rest, f"/clusters/{CLUSTER}/assignment")
    audit: dict[Key, Partition] = {}
    for row in await everything(rest, "/audit?entity=partition&kind=change&cluster=" + CLUSTER):
        if row["after"]:
            key = (row["after"]["topic_id"], row["partition"])
            if key in truth:  # newest first; what is deleted has its last row without an `after`
                audit.setdefault(key, {fact: row["after"][fact] for fact in FACTS})
    views = {"rest": {(item["topic_id"], item["partition"]): _item(item) for item in shown}, "audit": audit}
    return [anomaly.explanation for anomaly in check_placement(truth, views)]


def _facts(state: PartitionState) -> Partition:
    return {fact: getattr(state, fact) for fact in FACTS}


def _item(item: dict[str, Any]) -> Partition:
    return {fact: item[fact] for fact in FACTS} | {
        "leader": NO_LEADER if item["leader"] is None else item["leader"]
    }


async def everything(rest: Rest, path: str) -> list[dict[str, Any]]:
    """Every page of a list."""
    items: list[dict[str, Any]] = []
    first = f"{path}{'&' if '?' in path else '?'}limit={PAGE}"
    address = first
    while True:
        body = (await rest.client.get(address)).json()
        items += body["items"]
        if body["next_page_token"] is None:
            return items
        address = f"{first}&page_token={body['next_page_token']}"
