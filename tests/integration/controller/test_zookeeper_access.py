"""A ZooKeeper with TLS that other clients use, too: who gets in, and what they see of ours."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from controller.config import ControllerConfig
from controller.shell.kazoo_access import ZooKeeperAccess, ZooKeeperTls
from controller.shell.kazoo_meta import KazooMeta
from controller.shell.meta import Committed, Create, MetaUnavailable, SessionState, SetData
from controller.zookeeper import secure_zookeeper
from localcluster.java import find_java
from localcluster.ports import PortReservation
from localcluster.zookeeper import ZooKeeper, ZooKeeperPorts, ZooKeeperServerTls
from springtide.tls import client_context
from tests.integration.controller.conftest import until_state
from tests.kit.controller.controller_process import START_SECONDS_MAX, ControllerProcess
from tests.kit.secret_file import write_secret
from tests.kit.springtide.certificates import Pair, PrivateCa

pytestmark = pytest.mark.anyio

OURS, NEWER, THEIRS = (f"{name}:{name}-0123456789-0123456789" for name in ("springtide", "newer", "other"))
#: Several attempts to connect.
REFUSALS_S = 2.5


class Secured:
    """A ZooKeeper that takes only clients with a certificate, and the certificate of a controller."""

    def __init__(self, directory: Path, ports: PortReservation) -> None:
        self.ca = PrivateCa(directory)
        self.server_keystore = self.ca.keystore("zookeeper")
        self.pair: Pair = self.ca.issue("controller")
        self.zookeeper = ZooKeeper(
            directory=directory,
            ports=[ZooKeeperPorts(ports.reserve_free(), ports.reserve_free(), ports.reserve_free())],
            java=find_java(),
            log_directory=directory,
            tls=ZooKeeperServerTls(
                keystore=Path(self.server_keystore),
                truststore=Path(self.ca.file),
                context=client_context(ca=self.ca.file, cert=self.pair.cert, key=self.pair.key),
            ),
        )

    @property
    def tls(self) -> ZooKeeperTls:
        return ZooKeeperTls(self.ca.file, self.pair.cert, self.pair.key)

    def access(self, *identities: str) -> ZooKeeperAccess:
        return ZooKeeperAccess(self.tls, identities)

    @property
    def flags(self) -> tuple[str, ...]:
        return (
            *("--zookeeper-ca", self.ca.file),
            *("--zookeeper-client-cert", self.pair.cert, "--zookeeper-client-key", self.pair.key),
        )

    @asynccontextmanager
    async def meta(self, root: str, access: ZooKeeperAccess) -> AsyncIterator[KazooMeta]:
        """Open a session, with its root made."""
        async with self.unconnected(root, access) as meta:
            await until_state(meta, SessionState.CONNECTED)
            await meta.ensure_root()
            yield meta

    @asynccontextmanager
    async def unconnected(
        self, root: str, access: ZooKeeperAccess, *, host: str = "127.0.0.1"
    ) -> AsyncIterator[KazooMeta]:
        hosts = f"{host}:{self.zookeeper.servers[0].port}"
        meta = KazooMeta(hosts=hosts, root=root, session_timeout_ms=2_000, access=access)
        async with anyio.create_task_group() as tasks:
            await tasks.start(meta.run)
            yield meta
            tasks.cancel_scope.cancel()

    def secure(self, root: str, *identities: str) -> int:
        """Do what `controller secure-zookeeper` does; return its exit status."""
        config = ControllerConfig(zookeeper=self.zookeeper.connection_string, zookeeper_root=root)
        return secure_zookeeper(config, self.access(*identities), opens=False)

    def open_again(self, root: str, identities: Path) -> str:
        """Run `controller secure-zookeeper --open`; return what it prints."""
        command = [
            *(sys.executable, "-m", "controller", "secure-zookeeper", "--open", *self.flags),
            *("--zookeeper", self.zookeeper.connection_string, "--zookeeper-root", root),
            *("--zookeeper-auth-file", str(identities)),
        ]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with PortReservation() as ports:
        made = Secured(tmp_path_factory.mktemp("zookeeper"), ports)
        made.zookeeper.start()
        try:
            yield made
        finally:
            made.zookeeper.stop()


@pytest.fixture
def stranger(secured: Secured) -> Iterator[KazooClient]:
    """Another client of that ZooKeeper: a certificate of the same CA, and an identity of its own."""
    client = secured.access(THEIRS).client(
        hosts=secured.zookeeper.connection_string, session_timeout_ms=2_000
    )
    client.start(timeout=20)
    try:
        yield client
    finally:
        client.stop()
        client.close()


async def in_thread(function: Callable[..., Any], *arguments: object) -> Any:
    return await asyncio.to_thread(function, *arguments)


async def test_another_client_reads_and_changes_nothing_of_ours(
    secured: Secured, root: str, stranger: KazooClient
) -> None:
    async with secured.meta(root, secured.access(OURS)) as meta:
        made = await meta.start_write([Create("/a", b"1"), Create("/a/b", b"", ephemeral=True)]).outcome()
        assert made == Committed()
        for path in (root.rpartition("/")[0], root, f"{root}/a", f"{root}/a/b"):
            for attempt in (
                (stranger.get, path),
                (stranger.get_children, path),
                (stranger.set, path, b"2"),
                (stranger.create, f"{path}/new"),
                (stranger.set_acls, path, ZooKeeperAccess().acl),
            ):
                with pytest.raises(NoAuthError):
                    await in_thread(*attempt)
        with pytest.raises(NoAuthError):
            await in_thread(stranger.delete, f"{root}/a/b")


async def test_the_identity_is_there_again_after_a_reconnection(secured: Secured, root: str) -> None:
    async with secured.meta(root, secured.access(OURS)) as meta:
        await meta.start_write([Create("/a", b"1")]).outcome()
        await in_thread(secured.zookeeper.kill)
        await until_state(meta, SessionState.SUSPENDED)
        await in_thread(secured.zookeeper.start)
        await until_state(meta, SessionState.CONNECTED)
        assert await meta.start_write([SetData("/a", b"2", 0)]).outcome() == Committed()


async def test_a_controller_with_another_identity_is_told_so(secured: Secured, root: str) -> None:
    async with secured.meta(root, secured.access(OURS)) as meta:
        await meta.start_write([Create("/a", b"1")]).outcome()
    async with secured.unconnected(root, secured.access(THEIRS)) as meta:
        await until_state(meta, SessionState.CONNECTED)
        for asked in (meta.ensure_root(), meta.get("/a")):
            with pytest.raises(MetaUnavailable, match="let no identity of --zookeeper-auth-file do this"):
                await asked


@pytest.mark.parametrize(
    ("kind", "host", "cause"),
    [
        ("no certificate", "127.0.0.1", "alert|EOF|closed|reset"),
        ("a name that is not in the certificate", "localhost", "Hostname mismatch"),
        ("another CA", "127.0.0.1", "self-signed certificate|unable to get local issuer"),
    ],
)
async def test_a_connection_without_trust_on_both_sides_is_refused_and_the_log_says_why(
    secured: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, kind: str, host: str, cause: str
) -> None:
    tls = secured.tls
    if kind == "no certificate":
        tls = ZooKeeperTls(secured.ca.file)
    elif kind == "another CA":
        tls = ZooKeeperTls(PrivateCa(tmp_path, "other").file, tls.cert, tls.key)
    async with secured.unconnected("/refused", ZooKeeperAccess(tls), host=host) as meta:
        with anyio.move_on_after(REFUSALS_S):
            await meta.session_changed(meta.session)
        assert meta.session.state is SessionState.LOST
    (told,) = [one.getMessage() for one in caplog.records if "zookeeper_tls_failed" in one.msg]
    assert re.search(cause, told), told  # Once, not at each attempt.


async def test_cas_of_the_system_are_not_trusted(
    secured: Secured, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kazoo trusts them beside --zookeeper-ca."""
    monkeypatch.setenv("SSL_CERT_FILE", secured.ca.file)
    tls = ZooKeeperTls(PrivateCa(tmp_path, "other").file, secured.pair.cert, secured.pair.key)
    async with secured.unconnected(root, ZooKeeperAccess(tls)) as meta:
        with anyio.move_on_after(REFUSALS_S):
            await meta.session_changed(meta.session)
        assert meta.session.state is SessionState.LOST


async def test_a_debug_log_has_no_password(
    secured: Secured, root: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with secured.meta(root, secured.access(OURS)) as meta:
        await meta.start_write([Create("/a", b"1")]).outcome()
    assert "Sending request" in caplog.text
    assert OURS.partition(":")[2] not in caplog.text


async def test_a_cluster_that_was_open_is_closed_and_passwords_change_one_after_the_other(
    secured: Secured,
    root: str,
    stranger: KazooClient,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with secured.meta(root, secured.access()) as before:
        await before.start_write([Create("/a", b"1")]).outcome()
    # The first controllers with an identity leave what they create open: others have none yet.
    async with secured.meta(root, secured.access(OURS)) as meta:
        assert "zookeeper_open" in caplog.text
        await meta.start_write([Create("/b", b"2")]).outcome()
        assert (await in_thread(stranger.get, f"{root}/b"))[0] == b"2"

        assert await in_thread(secured.secure, root, OURS) == 0
        assert capsys.readouterr().out == f"{root}: 3 znodes are now closed to others, 0 were so before\n"
        await meta.ensure_root()  # As at each election.
        await meta.start_write([Create("/c", b"3")]).outcome()
        for path in (f"{root}/b", f"{root}/c"):
            with pytest.raises(NoAuthError):
                await in_thread(stranger.get, path)

    assert await in_thread(secured.secure, root, OURS, NEWER) == 0
    async with secured.meta(root, secured.access(NEWER)) as meta:
        assert await meta.start_write([SetData("/c", b"4", 0)]).outcome() == Committed()
    assert await in_thread(secured.secure, root, NEWER) == 0
    assert await in_thread(secured.secure, root, OURS) == 1
    assert capsys.readouterr().err == f"controller: the ACL of {root} lets no identity of ours in\n"


def test_what_was_closed_can_be_opened_again(
    secured: Secured, root: str, stranger: KazooClient, tmp_path: Path
) -> None:
    owner = secured.access(OURS).client(hosts=secured.zookeeper.connection_string, session_timeout_ms=2_000)
    owner.start(timeout=20)
    owner.create(f"{root}/a", b"1", acl=secured.access(OURS).acl, makepath=True)
    owner.stop()
    owner.close()
    opened = secured.open_again(root, write_secret(tmp_path / "identities", OURS))
    assert opened == f"{root}: 2 znodes are now open to every client, 0 were so before\n"
    assert stranger.get(f"{root}/a")[0] == b"1"


def test_a_controller_keeps_its_clusters_there(
    secured: Secured, root: str, tmp_path: Path, stranger: KazooClient
) -> None:
    file = write_secret(tmp_path / "identities", OURS)
    with PortReservation() as ports:
        controller = ControllerProcess(
            "controller",
            ports.reserve_free(),
            secured.zookeeper,
            root,
            tmp_path,
            *secured.flags,
            *("--zookeeper-auth-file", str(file), "--log-level", "debug"),
        )
        try:
            controller.start()
            controller.until_active(START_SECONDS_MAX)
            assert controller.create_cluster("prod") == 201
            with pytest.raises(NoAuthError):
                stranger.get_children(f"{root}/clusters")
            assert OURS.partition(":")[2] not in controller.log()
        finally:
            controller.http.close()
            controller.process.kill()
