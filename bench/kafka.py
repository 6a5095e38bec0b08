"""An installed Apache Kafka (3.3 or later) as the other side: one KRaft controller and three brokers.

It runs as it comes: the JVM options of its own start script, a heap of 512 MB, and its default configuration
but for what both sides share (sides.py) and what one machine needs (loopback, free ports, folders). Nothing
here makes it slower: no setting that its own quick start does not have, but one. Deleted segments go at once
instead of after a minute, on both sides, so that files do not pile up.

A configuration for log4j sends warnings to the process's log file; a home without a log4j backend logs
nothing, which costs it nothing either.
"""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from bench.case import Setup
from bench.secured import client_settings
from bench.sides import (
    BROKER_IDS,
    BROKERS,
    CLIENT,
    MIN_INSYNC_REPLICAS,
    REPLICATION_FACTOR,
    RETENTION_CHECK_MS,
    SEGMENT_BYTES,
    Tell,
    topic_configs,
)
from localcluster.access import AUTHORIZER
from localcluster.java import find_java
from localcluster.ports import LOOPBACK, PortReservation, is_accepting
from localcluster.processes import ProcessCommand, ProcessFailed, SupervisedProcess
from localcluster.tls import HOST, ClusterTls

HEAP = "512m"
VERSION_MIN = (3, 3)
"""The first release whose KRaft mode is for production (KIP-833)."""
CONTROLLER_ID = 100
READY_SECONDS_MAX = 120.0
ADMIN_SECONDS_MAX = 30.0
FORMAT_SECONDS_MAX = 120.0
POLL_SECONDS = 0.1

JVM_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
"""KAFKA_JVM_PERFORMANCE_OPTS of bin/kafka-run-class.sh."""

LOG4J = """\
log4j.rootLogger=WARN, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
LOG4J2 = """\
Configuration:
  Appenders:
    Console: {name: STDOUT, PatternLayout: {pattern: "[%d] %p %m (%c)%n"}}
  Loggers:
    Root: {level: WARN, AppenderRef: {ref: STDOUT}}
"""

_CLIENTS_JAR = re.compile(r"kafka-clients-(?P<version>(?P<major>\d+)\.(?P<minor>\d+)[^/]*)\.jar")


class KafkaNotUsable(RuntimeError):
    """The folder holds no Kafka that can be run; the message says what was looked for."""


def find_version(home: Path) -> str:
    """The release whose jars are in `home`/libs. Raises KafkaNotUsable."""
    libs = home / "libs"
    for jar in sorted(libs.glob("kafka-clients-*.jar")):
        found = _CLIENTS_JAR.fullmatch(jar.name)
        if found is None:
            continue
        if (int(found["major"]), int(found["minor"])) < VERSION_MIN:
            raise KafkaNotUsable(f"{jar.name}: Kafka 3.3 or later is needed, which runs without ZooKeeper")
        return found["version"]
    raise KafkaNotUsable(f"no kafka-clients-*.jar in {libs}: --kafka-home takes the folder above libs/")


class Kafka:
    """One Kafka cluster; a context manager that leaves nothing behind."""

    name = "kafka"

    def __init__(
        self, home: Path, tell: Tell, *, broker_config: Mapping[str, str] = {}, setup: Setup = Setup.PLAIN
    ) -> None:
        self._setup = setup
        self._tls: ClusterTls | None = None
        self._keystore: str | None = None
        self.ca_file: str | None = None
        self.cert_file: str | None = None
        self.version = find_version(home)
        self._home = home.resolve()
        self._tell = tell
        self._broker_config = broker_config
        self._ports = PortReservation()
        self._directory: Path | None = None
        self._processes: dict[int, SupervisedProcess] = {}
        self._broker_ports: dict[int, int] = {}
        self._admin: AdminClient | None = None

    # Life

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop(keep_directory=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop(keep_directory=kind is not None)

    def _start(self) -> None:
        java = find_java().executable
        self._directory = directory = Path(tempfile.mkdtemp(prefix="bench-kafka-"))
        (directory / "log4j.properties").write_text(LOG4J, encoding="utf-8")
        (directory / "log4j2.yaml").write_text(LOG4J2, encoding="utf-8")
        controller_port = self._ports.reserve_free()
        self._broker_ports = {broker_id: self._ports.reserve_free() for broker_id in BROKER_IDS}
        if self._setup in (Setup.TLS, Setup.ACLS):
            self._tls = ClusterTls(directory / "certificates")
            self.ca_file, self._keystore = str(self._tls.ca), str(self._tls.certificate(HOST))
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        nodes = {node_id: directory / f"{node_id}.properties" for node_id in (CONTROLLER_ID, *BROKER_IDS)}
        for node_id, properties in nodes.items():
            properties.write_text(self._properties(node_id, controller_port), encoding="utf-8")
            self._processes[node_id] = self._describe(java, node_id, properties)
        with ThreadPoolExecutor() as together:  # each is a JVM that mostly starts
            list(together.map(lambda properties: self._format(java, properties, cluster_id), nodes.values()))
        self._tell(
            f"starting Kafka {self.version} (KRaft, {BROKERS} brokers, heap {HEAP}): {self.bootstrap_servers}"
        )
        for process in self._processes.values():
            process.start()
        for broker_id, port in self._broker_ports.items():
            self._processes[broker_id].wait_ready(
                lambda port=port: is_accepting(port),  # type: ignore[misc]
                timeout_seconds=READY_SECONDS_MAX,
            )
        known = client_settings(self.ca_file, self._keystore)
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0, **known})
        self._wait("all its brokers are members", lambda: self._members() == BROKERS)
        if self._setup is Setup.ACLS:
            self._allow_load()

    def _stop(self, *, keep_directory: bool) -> None:
        # Brokers first: a controlled shutdown asks the controller.
        for node_id in (*self._broker_ports, CONTROLLER_ID):
            process = self._processes.get(node_id)
            if process is not None and process.is_running and not process.stop():
                self._tell(f"{process.name} did not stop on SIGTERM and was killed")
        self._ports.close()
        if self._directory is not None:
            if keep_directory:
                self._tell(f"Kafka's logs and data are kept in {self._directory}")
            else:
                shutil.rmtree(self._directory, ignore_errors=True)

    def _properties(self, node_id: int, controller_port: int) -> str:
        assert self._directory is not None
        is_controller = node_id == CONTROLLER_ID
        address = f"{LOOPBACK}:{controller_port if is_controller else self._broker_ports[node_id]}"
        settings: dict[str, object] = {
            "process.roles": "controller" if is_controller else "broker",
            "node.id": node_id,
            "controller.quorum.voters": f"{CONTROLLER_ID}@{LOOPBACK}:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{'CONTROLLER' if is_controller else 'CLIENTS'}://{address}",
            "inter.broker.listener.name": "CLIENTS",
            **self._security(),
            "log.dirs": self._directory / f"data-{node_id}",
            "default.replication.factor": REPLICATION_FACTOR,
            "offsets.topic.replication.factor": REPLICATION_FACTOR,
            "min.insync.replicas": MIN_INSYNC_REPLICAS,
            "log.segment.bytes": SEGMENT_BYTES,
            "log.retention.check.interval.ms": RETENTION_CHECK_MS,
            "auto.create.topics.enable": "false",
            **self._broker_config,
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    def _security(self) -> dict[str, str]:
        """The protocol of each listener, and what TLS and ACLs need; a keystore of PEM as KIP-651 has it."""
        protocol = "PLAINTEXT" if self._tls is None else "SSL"
        settings = {
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name in ("CONTROLLER", "CLIENTS")
            )
        }
        if self._tls is not None:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self._keystore),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self._tls.ca),
            }
        if self._setup is Setup.ACLS:
            settings |= {
                "ssl.client.auth": "requested",
                "authorizer.class.name": AUTHORIZER,
                "super.users": f"User:CN={HOST}",
            }
        return settings

    def _allow_load(self) -> None:
        """Allow the load, as CN of its certificate, to write and read every topic."""
        assert self._tls is not None
        self.cert_file = str(self._tls.certificate(CLIENT))
        place = (ResourceType.TOPIC, "*", ResourcePatternType.LITERAL, f"User:CN={CLIENT}", "*")
        bindings = [
            AclBinding(*place, operation, AclPermissionType.ALLOW)
            for operation in (AclOperation.READ, AclOperation.WRITE)
        ]
        for pending in self._client.create_acls(bindings).values():
            _result_of(pending)

    def _java_command(self, java: Path, main_class: str, *arguments: str) -> list[str]:
        directory = self._directory
        return [
            *(str(java), f"-Xms{HEAP}", f"-Xmx{HEAP}", *JVM_OPTIONS),
            f"-Dlog4j.configuration=file:{directory}/log4j.properties",
            f"-Dlog4j2.configurationFile=file:{directory}/log4j2.yaml",
            *("-cp", f"{self._home}/libs/*", main_class, *arguments),
        ]

    def _format(self, java: Path, properties: Path, cluster_id: str) -> None:
        ended = subprocess.run(
            self._java_command(
                java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(properties)
            ),
            capture_output=True,
            text=True,
            timeout=FORMAT_SECONDS_MAX,
            check=False,
        )
        if ended.returncode != 0:
            raise ProcessFailed(f"StorageTool format failed:\n{ended.stdout}{ended.stderr}")

    def _describe(self, java: Path, node_id: int, properties: Path) -> SupervisedProcess:
        assert self._directory is not None
        role = "controller" if node_id == CONTROLLER_ID else "broker"
        return SupervisedProcess(
            name=f"Kafka {role} {node_id}",
            command=ProcessCommand(
                arguments=self._java_command(java, "kafka.Kafka", str(properties)),
                working_directory=self._directory,
            ),
            log_path=self._directory / f"{role}-{node_id}.log",
        )

    # Use

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{LOOPBACK}:{port}" for port in self._broker_ports.values())

    @property
    def broker_pids(self) -> tuple[int, ...]:
        self._require_alive()
        pids = (self._processes[broker_id].pid for broker_id in self._broker_ports)
        return tuple(pid for pid in pids if pid is not None)

    @property
    def controller_pids(self) -> tuple[int, ...]:
        pid = self._processes[CONTROLLER_ID].pid
        return () if pid is None else (pid,)

    def broker_process(self, number: int) -> SupervisedProcess:
        return self._processes[number]

    def create_topic(
        self, topic: str, *, partitions: int, retention_bytes: int, configs: Mapping[str, str] = {}
    ) -> None:
        new = NewTopic(
            topic,
            num_partitions=partitions,
            replication_factor=REPLICATION_FACTOR,
            config={**topic_configs(retention_bytes), "file.delete.delay.ms": "0", **configs},
        )
        _result_of(self._client.create_topics([new])[topic])
        self._wait(f"{topic} is in sync", lambda: self._is_in_sync(topic, partitions))

    def delete_topic(self, topic: str) -> None:
        _result_of(self._client.delete_topics([topic])[topic])

    @property
    def _client(self) -> AdminClient:
        assert self._admin is not None, "the cluster has not been started"
        return self._admin

    def _members(self) -> int:
        return len(self._client.list_topics(timeout=ADMIN_SECONDS_MAX).brokers)

    def _is_in_sync(self, topic: str, partitions: int) -> bool:
        known = self._client.list_topics(topic, timeout=ADMIN_SECONDS_MAX).topics[topic].partitions
        return len(known) == partitions and all(
            state.leader >= 0 and len(state.isrs) == REPLICATION_FACTOR for state in known.values()
        )

    def _wait(self, what: str, is_so: Any) -> None:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            try:
                if is_so():
                    return
            except KafkaException:
                pass  # not yet
            self._require_alive()
            if time.monotonic() > deadline:
                raise ProcessFailed(f"Kafka: after {READY_SECONDS_MAX:g} s still not: {what}")
            time.sleep(POLL_SECONDS)

    def _require_alive(self) -> None:
        for process in self._processes.values():
            if process.has_failed:
                raise ProcessFailed(f"{process.name} ended with {process.exit_code}.{process.last_words()}")


def _result_of(pending: Future[Any]) -> None:
    """Raises KafkaException when it was refused."""
    pending.result(timeout=ADMIN_SECONDS_MAX)
