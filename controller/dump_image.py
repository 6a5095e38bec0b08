"""`controller dump-image`: prints a cluster as ZooKeeper has it, and needs no running controller."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

import anyio
import msgspec

from controller.config import ControllerConfig
from controller.shell.clock import Ids, SystemClock
from controller.shell.copies import read_published
from controller.shell.kazoo_access import ZooKeeperAccess
from controller.shell.kept_fields import UnreadableRows
from controller.shell.leadership import CLUSTERS_PATH
from controller.shell.meta import MetaUnavailable, SessionState
from controller.shell.published import Published, snapshot
from controller.zookeeper import open_meta

CONNECT_TIMEOUT_MS: Final = 15_000
DUMP_TRIES_MAX: Final = 10
DUMP_PAUSE_MS: Final = 100


async def dump_image(config: ControllerConfig, access: ZooKeeperAccess, cluster: str, output: str) -> int:
    """Print a consistent picture of the cluster, or say on stderr why there is none."""
    clock = SystemClock()
    meta = open_meta(config, access)
    published: Published | None = None
    known: list[str] = []
    failure = f"ZooKeeper at {config.zookeeper} did not answer; check --zookeeper"
    async with anyio.create_task_group() as tasks:
        await tasks.start(meta.run)
        with clock.timeout_ms(CONNECT_TIMEOUT_MS):
            session = meta.session
            while session.state is not SessionState.CONNECTED:
                session = await meta.session_changed(session)
            try:
                known = await meta.children(CLUSTERS_PATH)
                failure = f"no cluster {cluster!r} under {config.zookeeper_path}; there are: {known}"
                for _ in range(DUMP_TRIES_MAX if cluster in known else 0):
                    read = await read_published(meta, clock, Ids(os.urandom), cluster)
                    if read is not None:
                        published = read.published
                        break
                    failure = f"cluster {cluster!r} changes too fast, or has no head; try again"
                    await clock.sleep_ms(DUMP_PAUSE_MS)
            except UnreadableRows as error:
                failure = str(error)
            except MetaUnavailable as error:
                failure = f"ZooKeeper went away: {error}"
        tasks.cancel_scope.cancel()
    if published is None:
        print(f"controller: {failure}", file=sys.stderr)
        return 1
    sys.stdout.write(_render_json(published) if output == "json" else _render_text(published))
    return 0


def _document(published: Published) -> dict[str, Any]:
    image = published.image
    return {
        "cluster": published.cluster,
        "cluster_id": image.cluster_id,
        "configs": image.configs,
        "next_producer_id": image.next_producer_id,
        "brokers": [image.brokers[broker_id] for broker_id in sorted(image.brokers)],
        "topics": [image.topics[topic_id] for topic_id in sorted(image.topics)],
        "partitions": [snapshot(image.partitions[key]) for key in sorted(image.partitions)],
        "acls": [snapshot(acls) for acls in image.acls.values()],
        "users": [snapshot(secrets) for secrets in image.users.values()],
        "quotas": [snapshot(quotas) for quotas in image.quotas.values()],
        "groups": [snapshot(group) for group in image.group_configs.values()],
    }


def _render_json(published: Published) -> str:
    return msgspec.json.format(msgspec.json.encode(_document(published)), indent=2).decode() + "\n"


def _render_text(published: Published) -> str:
    image = published.image
    lines = [f"cluster {published.cluster}  id {image.cluster_id}"]
    lines += [f"  {name}={value}" for name, value in sorted(image.configs.items())]
    for broker_id, broker in sorted(image.brokers.items()):
        lines.append(
            f"broker {broker_id}  {broker.status}  epoch {broker.broker_epoch}  {broker.host}:{broker.port}"
            f"  rack {broker.rack or '-'}"
        )
    for topic_id, topic in sorted(image.topics.items(), key=lambda item: item[1].topic):
        mark = "  (kept)" if topic.kept else "  (being deleted)" if topic.deleting else ""
        lines.append(f"topic {topic.topic}  id {topic_id}  partitions {topic.partitions}{mark}")
        for state in image.partitions_of(topic_id):
            lines.append(
                f"  {state.partition}  leader {state.leader}  leader_epoch {state.leader_epoch}"
                f"  partition_epoch {state.partition_epoch}  replicas {list(state.replicas)}"
                f"  isr {list(state.isr)}" + (f"  elr {list(state.elr)}" if state.elr else "")
            )
    return "\n".join(lines) + "\n"
