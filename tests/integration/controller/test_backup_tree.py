"""A cluster's znodes are read as of one moment, or not at all; and come back as they were, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE

from controller.backup import tree
from controller.backup.archive import BackupInvalid
from controller.backup.tree import ChangesTooFast, TreeWriter, Znode, read_cluster, read_epoch, read_outside
from controller.shell.leadership import EpochRow
from controller.shell.rows import HeadRow
from localcluster.zookeeper import ZooKeeper
from springtide.contract.epochs import ControllerEpoch

OPEN = ((31, "world", "anyone"),)
READ_ONLY = ((1, "world", "anyone"),)


@pytest.fixture
def client(zookeeper: ZooKeeper) -> Iterator[KazooClient]:
    opened = KazooClient(hosts=zookeeper.connection_string, timeout=10)
    opened.start(timeout=30)
    yield opened
    opened.stop()
    opened.close()


def head(records: int) -> bytes:
    row = HeadRow(write_id=f"w{records}", controller_epoch=ControllerEpoch(1), records=records)
    return msgspec.json.encode(row)


def make(client: KazooClient, root: str, *, topics: int = 700) -> None:
    client.ensure_path(f"{root}/clusters/prod/topics")
    client.create(f"{root}/clusters/prod/head", head(1))
    for first in range(0, topics, 100):
        write = client.transaction()
        for number in range(first, first + 100):
            write.create(f"{root}/clusters/prod/topics/{number}", b"old")
        write.commit()


class Reader:
    """What `read_cluster` is given: keeps what the last try took, and does something in the middle."""

    def __init__(self, meanwhile: Callable[[int], None] = lambda attempt: None) -> None:
        self.tries: list[list[Znode]] = []
        self._meanwhile = meanwhile

    def begin(self) -> Callable[[Znode], None]:
        taken: list[Znode] = []
        self.tries.append(taken)

        def take(znode: Znode) -> None:
            taken.append(znode)
            if len(taken) == 300:
                self._meanwhile(len(self.tries))

        return take


def test_a_cluster_that_changes_while_it_is_read_is_read_again(client: KazooClient, root: str) -> None:
    make(client, root)

    def change(attempt: int) -> None:
        if attempt <= 2:
            write = client.transaction()
            write.set_data(f"{root}/clusters/prod/head", head(1 + attempt))
            for number in (0, 699):
                write.set_data(f"{root}/clusters/prod/topics/{number}", b"new %d" % attempt)
            write.commit()

    reader = Reader(change)
    paused: list[float] = []
    found = read_cluster(client, root, "prod", reader.begin, sleep=paused.append)
    assert (len(reader.tries), len(paused)) == (3, 2)
    assert found.head is not None
    assert found.head.records == 3
    data = {znode.path: znode.data for znode in reader.tries[-1]}
    assert len(data) == len(reader.tries[-1]) == 703
    assert data["/clusters/prod/topics/0"] == data["/clusters/prod/topics/699"] == b"new 2"


def test_one_that_always_changes_is_given_up_by_name(client: KazooClient, root: str) -> None:
    make(client, root)
    reader = Reader(lambda attempt: client.set(f"{root}/clusters/prod/head", head(attempt)))
    with pytest.raises(ChangesTooFast, match="cluster 'prod' was changed each of 30 times"):
        read_cluster(client, root, "prod", reader.begin, sleep=lambda seconds: None)
    assert len(reader.tries) == tree.TRIES_MAX


def test_what_lies_outside_of_clusters_is_read_without_what_is_ephemeral(
    client: KazooClient, root: str
) -> None:
    make(client, root, topics=0)
    epoch = msgspec.json.encode(EpochRow(controller_epoch=ControllerEpoch(7), lineage="abc"))
    assert read_epoch(client, root) is None
    client.create(f"{root}/controller_epoch", epoch)
    client.create(f"{root}/controllers", b"")
    client.create(f"{root}/controllers/active", b"me", ephemeral=True)
    outside = [znode.path for znode in read_outside(client, root)]
    assert outside[0] == "", "the root comes first"
    assert sorted(outside) == ["", "/clusters", "/controllers"]
    found = read_epoch(client, root)
    assert found is not None
    assert (found[0].data, found[1]) == (epoch, 7)


def test_znodes_come_back_with_their_data_and_acls(client: KazooClient, root: str) -> None:
    make(client, root)
    reader = Reader()
    read_cluster(client, root, "prod", reader.begin)
    (znodes,) = reader.tries
    other = f"{root}-restored"
    client.ensure_path(f"{other}/clusters")
    counted: list[int] = []
    writer = TreeWriter(client, other, counted.append)
    closed = Znode("/clusters/prod/closed", READ_ONLY, b"x" * 900_000)
    for znode in (*znodes, closed):
        writer.add(znode)
    writer.flush()
    assert (sum(counted), len(counted) > 2) == (704, True)
    again = Reader()
    read_cluster(client, other, "prod", again.begin)
    assert sorted(again.tries[0]) == sorted([*znodes, closed])
    assert client.get_acls(f"{other}/clusters/prod/head")[0] == OPEN_ACL_UNSAFE
    writer.add(znodes[0])
    with pytest.raises(BackupInvalid, match="is there already"):
        writer.flush()


def test_a_znode_without_its_parent_is_refused(client: KazooClient, root: str) -> None:
    client.ensure_path(root)
    writer = TreeWriter(client, root, lambda count: None)
    writer.add(Znode("/clusters/prod", OPEN, b""))
    with pytest.raises(BackupInvalid, match="/clusters/prod can't be created"):
        writer.flush()
