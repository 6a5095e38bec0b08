"""`controller backup create`, `verify` and `restore`: each returns the exit status and says what it did."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError

from controller.backup.archive import (
    FORMAT,
    ROWS,
    ZNODES,
    BackupInvalid,
    BackupManifest,
    ClusterSum,
    FileSum,
    LineWriter,
    check_file,
    read_lines,
    read_manifest,
    write_manifest,
)
from controller.backup.progress import Teller
from controller.backup.tables import DatabaseNotThere, check_empty, read_tables, row_of, write_tables
from controller.backup.tree import (
    Acl,
    ChangesTooFast,
    TreeWriter,
    Znode,
    cluster_names,
    from_line,
    read_cluster,
    read_epoch,
    read_outside,
    to_line,
)
from controller.config import ControllerConfig
from controller.database import schema
from controller.database.sql import cause_of
from controller.shell.kazoo_access import ZooKeeperAccess
from controller.shell.leadership import EPOCH_PATH
from controller.shell.rows import cluster_path, head_path
from springtide.levels import NEWEST, RELEASES, SUPPORTED
from springtide.version import VERSION

CONNECT_TIMEOUT_S: Final = 15

_Failed = (BackupInvalid, DatabaseNotThere, ChangesTooFast, TimeoutError)


def create(config: ControllerConfig, access: ZooKeeperAccess, folder: Path) -> int:
    """Back up all clusters and the database into a new folder, while controllers run or not."""
    if folder.exists():
        return _fail(f"{folder} is there already: name a new folder")
    making = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(making, ignore_errors=True)
    with _failures(config, f"remove {making} if it is still there, and run it again") as status:
        making.mkdir(mode=0o700, parents=True)
        try:
            manifest = _create(config, access, making)
            write_manifest(making, manifest)
            making.rename(folder)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
        _describe(manifest)
        print(f"{folder}: done; it holds secrets of users and webhooks, and its mode is 0700")
    return status[0]


def _create(config: ControllerConfig, access: ZooKeeperAccess, folder: Path) -> BackupManifest:
    root = config.zookeeper_path
    files: dict[str, FileSum] = {}
    acls: list[Acl] = []
    clusters: list[ClusterSum] = []
    # SQL first: what it has and ZooKeeper has not would tell of changes that never were.
    with LineWriter(folder / ROWS) as rows:
        progress: list[Teller] = []

        def take(name: str, row: dict[str, Any]) -> None:
            rows.write([name, row])
            progress[0].advance()

        product, revision, tables = read_tables(
            config.database_url, take, lambda total: progress.append(Teller("rows of SQL", total))
        )
        progress[0].finish()
        files[ROWS] = rows.finish()
    with _connected(config, access) as client:
        read = Teller("znodes")
        for number, name in enumerate(cluster_names(client, root)):
            file = f"cluster-{number}.jsonl.gz"
            files[file], found = _read_cluster(client, root, name, folder / file, acls, read)
            clusters.append(found)
        with LineWriter(folder / ZNODES) as outside:
            for znode in read_outside(client, root):
                outside.write(to_line(znode, acls))
                read.advance()
            epoch = read_epoch(client, root)
            if epoch is not None:
                outside.write(to_line(epoch[0], acls))
            files[ZNODES] = outside.finish()
        missing = set(cluster_names(client, root)) ^ {cluster.name for cluster in clusters}
        if missing:
            raise ChangesTooFast(f"clusters were created or deleted meanwhile: {', '.join(sorted(missing))}")
        read.finish()
    return BackupManifest(
        format=FORMAT,
        release=VERSION,
        level=NEWEST,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        zookeeper_root=root,
        controller_epoch=0 if epoch is None else epoch[1],
        clusters=tuple(clusters),
        acls=tuple(acls),
        revision=revision,
        database=product,
        tables=tables,
        files=files,
    )


def _read_cluster(
    client: KazooClient, root: str, name: str, path: Path, acls: list[Acl], progress: Teller
) -> tuple[FileSum, ClusterSum]:
    tries: list[tuple[LineWriter, Counter[str]]] = []

    def begin() -> Callable[[Znode], None]:
        for writer, _ in tries:
            writer.__exit__(None, None, None)
        writer, counts = LineWriter(path), Counter[str]()
        tries[:] = [(writer, counts)]

        def take(znode: Znode) -> None:
            writer.write(to_line(znode, acls))
            counts[_folder_of(znode.path)] += 1
            progress.advance()

        return take

    found = read_cluster(
        client,
        root,
        name,
        begin,
        on_retry=lambda attempt: print(
            f"cluster {name}: it was changed while it was read; reading it again ({attempt})", file=sys.stderr
        ),
    )
    writer, counts = tries[0]
    with writer:
        stored = writer.finish()
    head = found.head
    return stored, ClusterSum(
        name=name,
        file=path.name,
        level=found.level,
        records=None if head is None else head.records,
        write_id=None if head is None else head.write_id,
        znodes=stored.lines,
        counts=dict(sorted(counts.items())),
    )


def _folder_of(path: str) -> str:
    """Return the folder of a cluster's znode, such as `brokers`; empty of what is in none."""
    parts = path.split("/")
    return "/".join(parts[3:4]) if len(parts) > 4 else ""


def verify(folder: Path) -> int:
    """Read the whole backup, without ZooKeeper and SQL, and say what it has."""
    try:
        manifest = _checked(folder)
    except BackupInvalid as error:
        return _fail(str(error))
    _describe(manifest)
    print(f"{folder}: whole")
    return 0


def _checked(folder: Path) -> BackupManifest:
    """Return the manifest of a backup that is whole. Raise BackupInvalid."""
    manifest = read_manifest(folder)
    progress = Teller("lines", sum(found.lines for found in manifest.files.values()))
    for name, wanted in manifest.files.items():
        check_file(folder, name, wanted)
    tables: Counter[str] = Counter()
    for line in read_lines(folder, ROWS, manifest.files[ROWS]):
        tables[row_of(line)[0]] += 1
        progress.advance()
    if dict(tables) != {name: count for name, count in manifest.tables.items() if count}:
        raise BackupInvalid(f"{folder / ROWS} has other rows than the manifest says: {dict(tables)}")
    for znode in _znodes(folder, manifest, ZNODES):
        if znode.path.startswith("/clusters/"):
            raise BackupInvalid(f"{folder / ZNODES} has {znode.path}, which belongs to a cluster")
        progress.advance()
    for cluster in manifest.clusters:
        top = cluster_path(cluster.name)
        for znode in _znodes(folder, manifest, cluster.file):
            if not f"{znode.path}/".startswith(f"{top}/"):
                raise BackupInvalid(f"{folder / cluster.file} has {znode.path}, which is not below {top}")
            progress.advance()
    progress.finish()
    return manifest


def _znodes(folder: Path, manifest: BackupManifest, name: str) -> Iterator[Znode]:
    for line in read_lines(folder, name, manifest.files[name]):
        yield from_line(line, manifest.acls)


def restore(
    config: ControllerConfig, access: ZooKeeperAccess, folder: Path, *, dry_run: bool, own_acls: bool
) -> int:
    """Put a backup into an empty ZooKeeper and an empty database. Epochs, lineages and heads are those of the
    backup, so brokers that were told more contradict them, and the controllers say metadata_went_back."""
    root = config.zookeeper_path
    with _failures(
        config, f"remove {root} from ZooKeeper (deleteall) and the database's tables, and run it again"
    ) as status:
        manifest = _checked(folder)
        _check_usable(manifest)
        acl = _own(access) if own_acls else None
        if acl is None:
            _check_acls(manifest, access)
        check_empty(config.database_url)
        with _connected(config, access) as client:
            _check_root_empty(client, root)
            _describe(manifest)
            if dry_run:
                print(f"dry run: {root} and the database are empty, and would have this; nothing was changed")
                return 0
            rows = Teller("rows of SQL", sum(manifest.tables.values()))
            lines = read_lines(folder, ROWS, manifest.files[ROWS])
            write_tables(config.database_url, manifest.revision, lines, rows.advance)
            rows.finish()
            _write_tree(client, root, folder, manifest, acl)
        print(
            "restored. Start the controllers, then look at `springtide clusters list`: brokers that were "
            "told of more than the backup has make it say metadata_went_back (docs/backup.md: Recovering)"
        )
    return status[0]


def _check_usable(manifest: BackupManifest) -> None:
    """Raise BackupInvalid if this release can't run on what the backup has."""
    us = f"this is release {RELEASES[NEWEST]} (level {NEWEST})"
    for cluster in manifest.clusters:
        if not SUPPORTED.has(cluster.level):
            raise BackupInvalid(
                f"cluster {cluster.name!r} is at level {cluster.level}, and {us}: restore it with the "
                "release that made the backup"
            )
    if manifest.revision not in schema.OLDEST_LEVELS:
        raise BackupInvalid(f"its SQL has revision {manifest.revision!r}, of a later release; {us}")


def _own(access: ZooKeeperAccess) -> Acl:
    return tuple((one.perms, one.id.scheme, one.id.id) for one in access.acl)


def _check_acls(manifest: BackupManifest, access: ZooKeeperAccess) -> None:
    """Raise BackupInvalid if a znode would be closed to this command's identities."""
    ours = {(scheme, name) for _, scheme, name in _own(access)} | {("world", "anyone")}
    for acl in manifest.acls:
        if not any((scheme, name) in ours and perms == 31 for perms, scheme, name in acl):
            whose = ", ".join(name.partition(":")[0] for _, _, name in acl)
            raise BackupInvalid(
                f"znodes of the backup belong to the ZooKeeper identities {whose}: name the same "
                "NAME:PASSWORD with --zookeeper-auth-file, or give them to the identities of this command "
                "with --own-acls"
            )


def _check_root_empty(client: KazooClient, root: str) -> None:
    try:
        found = client.get_children(root)
    except NoNodeError:
        return
    if found:
        raise BackupInvalid(
            f"{root} in ZooKeeper is not empty ({', '.join(sorted(found)[:3])}): stop all controllers and "
            "name a new --zookeeper-root or another ZooKeeper; if nothing in it is needed, remove it "
            "(deleteall)"
        )


def _write_tree(
    client: KazooClient, root: str, folder: Path, manifest: BackupManifest, acl: Acl | None
) -> None:
    """Heads last, and the controller epoch after them: without them no controller takes a part for the
    whole."""
    progress = Teller("znodes", sum(cluster.znodes for cluster in manifest.clusters))
    writer = TreeWriter(client, root, progress.advance)
    late: list[Znode] = []
    heads = {head_path(cluster.name) for cluster in manifest.clusters}
    client.ensure_path(root.rpartition("/")[0] or "/")
    for name in (ZNODES, *(cluster.file for cluster in manifest.clusters)):
        for znode in _znodes(folder, manifest, name):
            placed = znode if acl is None else znode._replace(acl=acl)
            if placed.path == "" and client.exists(root):
                continue
            if placed.path in heads:
                late.insert(0, placed)
            elif placed.path == EPOCH_PATH:
                late.append(placed)
            else:
                writer.add(placed)
    writer.flush()
    for placed in late:
        writer.add(placed)
        writer.flush()
    progress.finish()


def _describe(manifest: BackupManifest) -> None:
    print(f"made {manifest.made_at} by release {manifest.release} (level {manifest.level})")
    print(f"ZooKeeper {manifest.zookeeper_root}, controller epoch {manifest.controller_epoch}")
    for cluster in manifest.clusters:
        counts = ", ".join(f"{name} {count}" for name, count in cluster.counts.items() if name)
        print(
            f"  cluster {cluster.name}  level {cluster.level}  records {cluster.records}  "
            f"znodes {cluster.znodes}: {counts}"
        )
    print(f"SQL ({manifest.database}), revision {manifest.revision}")
    for name, count in manifest.tables.items():
        if count:
            print(f"  {name} {count}")
    total = sum(found.bytes for found in manifest.files.values())
    print(f"{total:,} bytes, without records: they are on the brokers' disks only")


@contextmanager
def _connected(config: ControllerConfig, access: ZooKeeperAccess) -> Iterator[KazooClient]:
    client = access.client(
        hosts=config.zookeeper_hosts, session_timeout_ms=config.zookeeper_session_timeout_ms
    )
    try:
        try:
            client.start(timeout=CONNECT_TIMEOUT_S)
        except client.handler.timeout_exception:
            raise TimeoutError(f"ZooKeeper at {config.zookeeper} did not answer; check --zookeeper") from None
        yield client
    finally:
        client.stop()
        client.close()


@contextmanager
def _failures(config: ControllerConfig, then: str) -> Iterator[list[int]]:
    """Turn failures of the world into a line and exit status 1. then: what to do where it was cut off."""
    status = [0]
    try:
        yield status
    except _Failed as error:
        status[0] = _fail(str(error))
    except NoAuthError:
        status[0] = _fail("an ACL lets no identity of this command in: name --zookeeper-auth-file")
    except NoNodeError:
        status[0] = _fail(f"ZooKeeper has no {config.zookeeper_path}, or a cluster was deleted meanwhile")
    except KazooException as error:
        status[0] = _fail(f"ZooKeeper went away ({type(error).__name__}): {then}")
    except (sa.exc.SQLAlchemyError, schema.MigrationFailed) as error:
        status[0] = _fail(f"SQL: {cause_of(error, sa.make_url(config.database_url))}; {then}")
    except OSError as error:
        status[0] = _fail(f"{error.filename or ''}: {error.strerror or error}; {then}")


def _fail(why: str) -> int:
    print(f"controller: {why}", file=sys.stderr)
    return 1
