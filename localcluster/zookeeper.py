"""Runs ZooKeeper from the jars that PySpark ships: one server, or an ensemble.

Trying Springtide and running its tests should not need a ZooKeeper that is installed and configured, and the
PySpark wheel that the pipeline needs anyway holds a complete one. It is a real server with real data
directories and, unless told otherwise, real fsyncs; what is left out is what a laptop does not want: the
admin web server, large heaps, listening on anything but loopback.

A server keeps its data directory over `kill` and `start`, so that a restart is what it is in production.
"""

from __future__ import annotations

import contextlib
import importlib.util
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localcluster.java import Java
from localcluster.ports import LOOPBACK
from localcluster.processes import PlaceOf, ProcessCommand, ProcessPlace, SupervisedProcess, this_machine

MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

TICK_TIME_MS = 500
"""ZooKeeper's unit of time: sessions may be 2 to 20 ticks long, so 1 s to 10 s."""

HEAP_BYTES = "768m"
"""At most. A server keeps its 500 latest writes for others that lag (it takes no smaller number), and they
are of up to 800 kB while a broker's death rewrites thousands of partitions."""
ANSWER_SECONDS_MAX = 2.0
ANSWER_BYTES_MAX = 64 * 1024

JAR_PATTERNS = (
    "zookeeper-[0-9]*.jar",
    "zookeeper-jute-[0-9]*.jar",
    "slf4j-api-[0-9]*.jar",
    "log4j-api-[0-9]*.jar",
    "log4j-core-[0-9]*.jar",
    "log4j-slf4j2-impl-[0-9]*.jar",
    "metrics-core-[0-9]*.jar",
    "netty-common-[0-9]*.jar",
    "netty-handler-[0-9]*.jar",
    "netty-buffer-[0-9]*.jar",
    "netty-transport-[0-9]*.jar",
    "netty-codec-base-[0-9]*.jar",
    "netty-resolver-[0-9]*.jar",
    "netty-transport-native-unix-common-[0-9]*.jar",
    "netty-transport-classes-epoll-[0-9]*.jar",
    "snappy-java-[0-9]*.jar",
    "commons-cli-[0-9]*.jar",
)
"""The jars that a server loads. Classes of metrics-core, netty and snappy-java are touched while it starts or
takes a snapshot even when the features behind them are off, and TLS needs the rest of netty; without log4j it
runs but cannot say what is wrong."""

JVM_FLAGS = (
    "-Xms16m",
    "-XX:+ExitOnOutOfMemoryError",  # Without memory it would stay up and serve no client.
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # Half the start-up is compiling; the second compiler never pays back here.
    "-Xshare:auto",
    "-XX:-UsePerfData",  # No file in /tmp that a SIGKILL would leave behind.
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
    "-Dlog4j2.level=WARN",
    "-Dlog4j2.disable.jmx=true",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.preAllocSize=1024",  # KiB. The default writes 64 MiB of zeros for each transaction log.
)


class ZooKeeperJarsNotFound(RuntimeError):
    """PySpark is not installed, or its jars do not include what ZooKeeper needs."""


def find_zookeeper_jars() -> list[Path]:
    """The class path for a ZooKeeper server, from PySpark's folder; PySpark itself is not imported."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ZooKeeperJarsNotFound(
            "PySpark is not installed in this environment, and its jars hold the ZooKeeper that the local "
            "cluster runs: pip install 'springtide[pipeline]'"
        )
    return select_zookeeper_jars(Path(found.origin).parent / "jars")


def select_zookeeper_jars(folder: Path) -> list[Path]:
    """One jar for each of `JAR_PATTERNS`, in that order.

    Raises:
        ZooKeeperJarsNotFound: naming every pattern that no file matches.
    """
    matches = {pattern: sorted(folder.glob(pattern)) for pattern in JAR_PATTERNS}
    missing = [pattern for pattern, jars in matches.items() if not jars]
    if missing:
        raise ZooKeeperJarsNotFound(f"{folder} has no {', '.join(missing)}")
    return [jars[0] for jars in matches.values()]


@dataclass(frozen=True, slots=True)
class ZooKeeperPorts:
    """A server's three ports, and its host's address. An ensemble uses all; a single server listens on
    `client` only."""

    client: int
    quorum: int
    election: int
    address: str = LOOPBACK


@dataclass(frozen=True, slots=True)
class ZooKeeperServerTls:
    """The TLS of a server that takes only clients with a certificate. keystore, truststore: PEM files.
    context: what we connect with to ask how it is."""

    keystore: Path
    truststore: Path
    context: ssl.SSLContext

    @property
    def settings(self) -> list[str]:
        return [
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            f"ssl.keyStore.location={self.keystore}",
            "ssl.keyStore.type=PEM",
            f"ssl.trustStore.location={self.truststore}",
            "ssl.trustStore.type=PEM",
            "ssl.clientAuth=need",
        ]


def render_zoo_cfg(
    *,
    data_directory: Path,
    server_id: int,
    ports_by_id: dict[int, ZooKeeperPorts],
    force_sync: bool,
    tls: ZooKeeperServerTls | None = None,
) -> str:
    """zoo.cfg for one server of an ensemble, or for a single server when `ports_by_id` has one entry. With
    TLS, clients have no other port; servers of an ensemble talk to each other without."""
    port = "clientPort" if tls is None else "secureClientPort"
    lines = [
        f"tickTime={TICK_TIME_MS}",
        f"dataDir={data_directory}",
        f"{port}={ports_by_id[server_id].client}",
        f"{port}Address={ports_by_id[server_id].address}",
        *([] if tls is None else tls.settings),
        "admin.enableServer=false",
        "4lw.commands.whitelist=ruok,srvr,mntr,cons",
        "maxClientCnxns=0",
        f"forceSync={'yes' if force_sync else 'no'}",
    ]
    if len(ports_by_id) > 1:
        lines += [
            "initLimit=20",
            "syncLimit=10",
            "quorumListenOnAllIPs=false",
            # Members find each other through their config; a dynamic one would be rewritten beside ours.
            "reconfigEnabled=false",
            "standaloneEnabled=false",
        ]
        lines += [
            f"server.{peer_id}={ports.address}:{ports.quorum}:{ports.election}"
            for peer_id, ports in sorted(ports_by_id.items())
        ]
    return "\n".join(lines) + "\n"


def ask_four_letter_word(
    port: int,
    word: str,
    *,
    address: str = LOOPBACK,
    timeout_seconds: float = ANSWER_SECONDS_MAX,
    tls: ssl.SSLContext | None = None,
) -> str | None:
    """Send one of ZooKeeper's four-letter words and return the answer; None if there is no answer in time."""
    deadline = time.monotonic() + timeout_seconds
    answer = bytearray()
    try:
        with contextlib.ExitStack() as stack:
            connection = socket.create_connection((address, port), timeout=timeout_seconds)
            stack.enter_context(connection)
            if tls is not None:
                connection = stack.enter_context(tls.wrap_socket(connection, server_hostname=address))
            connection.sendall(word.encode("ascii"))
            while len(answer) < ANSWER_BYTES_MAX:
                connection.settimeout(max(0.001, deadline - time.monotonic()))
                received = connection.recv(4096)
                if not received:
                    break
                answer += received
    except OSError:
        return None
    return answer.decode("utf-8", errors="replace")


def parse_server_mode(srvr_answer: str | None) -> str | None:
    """`standalone`, `leader`, `follower` or `observer` from the answer to `srvr`; None when it serves
    no process."""
    for line in (srvr_answer or "").splitlines():
        key, _, mode = line.partition(":")
        if key == "Mode":
            return mode.strip()
    return None


class ZooKeeperServer:
    """One ZooKeeper server with its data directory.

    Args:
        directory: holds `zoo.cfg` and `data/`; created when absent, kept when the server stops.
        server_id: 1 to 255; its key in `ports_by_id`.
        ports_by_id: the ports of every member, this one included.
        force_sync: False skips ZooKeeper's fsyncs: faster, and a crash of the *machine* may lose what it
            promised.
        place: where it runs; its address is in `ports_by_id` too.
        tls: None speaks without TLS.
        heap: at most, as java takes it.
    """

    def __init__(
        self,
        *,
        directory: Path,
        server_id: int,
        ports_by_id: dict[int, ZooKeeperPorts],
        java: Java,
        jars: Sequence[Path],
        log_path: Path,
        force_sync: bool = True,
        place: ProcessPlace | None = None,
        tls: ZooKeeperServerTls | None = None,
        heap: str = HEAP_BYTES,
    ) -> None:
        self.server_id = server_id
        self._tls = tls
        self.port = ports_by_id[server_id].client
        self.address = ports_by_id[server_id].address
        self.data_directory = directory / "data"
        self._config_path = directory / "zoo.cfg"
        self._config = render_zoo_cfg(
            data_directory=self.data_directory,
            server_id=server_id,
            ports_by_id=ports_by_id,
            force_sync=force_sync,
            tls=tls,
        )
        class_path = ":".join(str(jar) for jar in jars)
        self.process = SupervisedProcess(
            name=f"zookeeper {server_id}",
            command=(place or ProcessPlace()).run(
                ProcessCommand(
                    arguments=[
                        str(java.executable),
                        *JVM_FLAGS,
                        f"-Xmx{heap}",
                        "-cp",
                        class_path,
                        MAIN_CLASS,
                        str(self._config_path),
                    ],
                    working_directory=directory,
                )
            ),
            log_path=log_path,
        )

    def start(self) -> None:
        """Write its configuration and start it; `wait_ready` says when it serves."""
        self.data_directory.mkdir(parents=True, exist_ok=True)
        (self.data_directory / "myid").write_text(f"{self.server_id}\n", encoding="ascii")
        self._config_path.write_text(self._config, encoding="utf-8")
        self.process.start()

    def mode(self) -> str | None:
        """Return its role, or None while it does not serve (an ensemble member without a quorum does not)."""
        tls = None if self._tls is None else self._tls.context
        return parse_server_mode(ask_four_letter_word(self.port, "srvr", address=self.address, tls=tls))

    def wait_ready(self) -> None:
        self.process.wait_ready(lambda: self.mode() is not None)


class ZooKeeper:
    """One server or an ensemble of them, used as a whole.

    Args:
        directory: one subfolder a server.
        ports: one entry a server; an odd number is what makes sense.
        place_of: where each runs.
        tls: of all of them; None speaks without TLS.
        heap: of each at most.
    """

    def __init__(
        self,
        *,
        directory: Path,
        ports: Sequence[ZooKeeperPorts],
        java: Java,
        log_directory: Path,
        force_sync: bool = True,
        place_of: PlaceOf = this_machine,
        tls: ZooKeeperServerTls | None = None,
        heap: str = HEAP_BYTES,
    ) -> None:
        ports_by_id = dict(enumerate(ports, start=1))
        jars = find_zookeeper_jars()
        self.servers = [
            ZooKeeperServer(
                directory=directory / f"zookeeper-{server_id}",
                server_id=server_id,
                ports_by_id=ports_by_id,
                java=java,
                jars=jars,
                log_path=log_directory / f"zookeeper-{server_id}.log",
                force_sync=force_sync,
                place=place_of(f"zookeeper-{server_id}"),
                tls=tls,
                heap=heap,
            )
            for server_id in ports_by_id
        ]

    @property
    def connection_string(self) -> str:
        """Return the addresses as a ZooKeeper client takes them: `host:port,host:port`."""
        return ",".join(f"{server.address}:{server.port}" for server in self.servers)

    def start(self) -> None:
        """Start every server that is not running and wait until all serve."""
        self.begin_start()
        self.wait_ready()

    def begin_start(self) -> None:
        """Start every server that is not running; `wait_ready` says when all serve."""
        for server in self.servers:
            if not server.process.is_running:
                server.start()

    def wait_ready(self) -> None:
        for server in self.servers:
            server.wait_ready()

    def kill(self) -> None:
        """SIGKILL every server."""
        for server in self.servers:
            server.process.kill()

    def stop(self) -> None:
        """Stop the servers one after the other; never raise, so that cleaning up continues."""
        for server in self.servers:
            with contextlib.suppress(OSError):
                server.process.stop(timeout_seconds=5.0)

    def restart(self) -> None:
        """Kill every server, start them again on the same data, and wait until they serve."""
        self.kill()
        self.start()
