"""A whole Springtide cluster on this machine: ZooKeeper, controllers, brokers, coordinators, each a process.

The quick start, the fault tests, the interoperability tests and the benchmark all run on this class, so
that what a newcomer sees first is what the tests kill all day. It starts the same commands that production
runs, talks to them through the public REST API only, and knows nothing of their insides.

Rules it keeps:

- every process keeps its ports for the cluster's whole life, dead or alive (ports.py);
- the cluster's folder holds everything: data, SQL file, logs. A folder that it made itself is removed when
  everything went well and kept, with its logs, when the `with` block ends by an exception; a folder it was
  given is never removed;
- a process that ended without being asked to makes every wait fail at once, with that process's last log
  lines.

    with LocalCluster(brokers=3) as cluster:
        cluster.form()
        cluster.create_topic("orders", partitions=3, replication_factor=3)
        cluster.kill_broker(cluster.leader("orders", 0))
"""

from __future__ import annotations

import shutil
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import urlencode

import httpx

from localcluster.access import LOGIN, Access, ClientFiles, RestTokens
from localcluster.java import JavaNotFound, find_java
from localcluster.ports import LOOPBACK, PortReservation, is_accepting
from localcluster.processes import (
    STOP_SECONDS_MAX,
    PlaceOf,
    ProcessCommand,
    ProcessFailed,
    SupervisedProcess,
    this_machine,
)
from localcluster.rest import (
    ControllerApi,
    Json,
    RestFailed,
    RestPartition,
    describe_refusal,
    open_rest_client,
)
from localcluster.tls import ClusterTls
from localcluster.zookeeper import HEAP_BYTES, ZooKeeper, ZooKeeperJarsNotFound, ZooKeeperPorts
from springtide.exposure import INSECURE_NETWORK

DEFAULT_CLUSTER = "prod"
FIRST_COORDINATOR_ID = 1001
WAIT_SECONDS_MAX = 60.0
WAIT_POLL_SECONDS = 0.05
PROBE_SECONDS_MAX = 2.0
CANNOT_RUN = (JavaNotFound, ZooKeeperJarsNotFound, ProcessFailed, RestFailed, TimeoutError)
"""Why a cluster can't be started or used, in words for a person."""

T = TypeVar("T")


class WaitedTooLong(TimeoutError):
    """A condition did not come true in time; the message names it and shows the last value seen."""


@dataclass(frozen=True, slots=True)
class FirstPorts:
    """The first port of each kind of process; `None` in `LocalCluster` draws free ones instead."""

    zookeeper: int = 2181
    controller: int = 8080
    broker: int = 9092
    broker_metrics: int = 9192
    coordinator: int = 9292
    coordinator_metrics: int = 9392
    required: bool = False
    """True: fail when one is taken. False: take a free one instead."""

    @classmethod
    def from_base(cls, base: int) -> FirstPorts:
        """One block of a hundred ports from `base` on, which must be free."""
        return cls(
            zookeeper=base,
            controller=base + 20,
            broker=base + 40,
            broker_metrics=base + 60,
            coordinator=base + 80,
            coordinator_metrics=base + 90,
            required=True,
        )


@dataclass(slots=True)
class ControllerProcess:
    """A controller and where it listens."""

    index: int
    port: int
    process: SupervisedProcess
    address: str = LOOPBACK
    tls: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://{self.address}:{self.port}"

    def readiness(self) -> Json | None:
        """The body of `GET /readyz` when it says 200, else None."""
        try:
            answer = httpx.get(f"{self.url}/readyz", timeout=PROBE_SECONDS_MAX, verify=self.tls or True)
        except httpx.TransportError:
            return None
        if not answer.is_success:
            return None
        body = answer.json()
        return body if isinstance(body, dict) else {}


@dataclass(slots=True)
class NodeProcess:
    """A broker or a coordinator, where it listens and its folder. peers_port: where other processes reach
    it. sasl_port: where clients log in; 0: nowhere. workers: of a broker; worker k has each port + k."""

    port: int
    peers_port: int
    sasl_port: int
    metrics_port: int
    directory: Path
    process: SupervisedProcess
    address: str = LOOPBACK
    tls: ssl.SSLContext | None = None
    workers: int = 1

    @property
    def endpoint(self) -> str:
        return f"{self.address}:{self.port}"

    @property
    def registered(self) -> str:
        """Return the address that it, or its worker 0, registers with."""
        return f"{self.address}:{self.peers_port}"

    @property
    def is_listening(self) -> bool:
        """Return whether it, or each of its workers, accepts connections."""
        ports = range(self.port, self.port + self.workers)
        return all(is_accepting(port, address=self.address) for port in ports)

    @property
    def pids(self) -> Sequence[int]:
        """Return those of the node and its workers, none where it does not run."""
        if self.process.pid is None:
            return ()
        workers = range(self.workers) if self.workers > 1 else ()
        return (self.process.pid, *map(self.worker_pid, workers))

    def worker_pid(self, worker: int) -> int:
        """Return the process id of a worker, as the last line of the log about its start has it. Raise
        ProcessFailed."""
        started = f"worker_started worker={worker}/{self.workers} pid="
        lines = self.process.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        pids = [line.partition(started)[2] for line in lines if started in line]
        if not pids:
            raise ProcessFailed(f"{self.process.name} has not started worker {worker} yet")
        return int(pids[-1])

    @property
    def data_directory(self) -> Path:
        """Return the folder of a broker's logs."""
        return self.directory / "data"

    def metrics(self) -> str:
        """The text of its Prometheus page."""
        scheme = "http" if self.tls is None else "https"
        url = f"{scheme}://{self.address}:{self.metrics_port}/metrics"
        return httpx.get(url, timeout=PROBE_SECONDS_MAX, verify=self.tls or True).text


def _config_flags(config: Mapping[str, str]) -> list[str]:
    return [flag for key, value in config.items() for flag in ("--config", f"{key}={value}")]


def endpoints_of(nodes: Mapping[int, NodeProcess]) -> str:
    return ",".join(node.endpoint for node in nodes.values())


class LocalCluster:
    """Starts, breaks, mends and stops one cluster.

    Args:
        directory: where everything lives; None makes a temporary folder. An existing folder is reused with
            its data.
        brokers, controllers, zookeepers: how many to start. Ids count from 1.
        coordinators: how many to start. Ids count from FIRST_COORDINATOR_ID. Without one there are no groups,
            and no topic that holds their state.
        workers: worker processes of each broker.
        broker_config, coordinator_config: passed to every broker, or coordinator, as `--config KEY=VALUE`.
        controller_flags: appended to every controller's command line.
        log_format: text or json, of what controllers, brokers and coordinators log.
        force_sync: whether ZooKeeper fsyncs, see zookeeper.py. zookeeper_heap: of each of its servers.
        name: the cluster that the brokers belong to.
        first_ports: None draws free ports.
        creates_cluster: whether `start` creates the cluster; without it, brokers and coordinators wait until
            it is created.
        on_progress: called with a line for each thing worth telling a person who waits.
        place_of: where each process runs; the folder must be the same everywhere.
        is_secure: whether all speak TLS, with certificates made for this machine.
        sasl: settings of one more listener, SASL, of a secure cluster's brokers and coordinators, without
            its prefix; then those who show a certificate are known by it, too. None: there is none.
        has_users: whether clients of a secure cluster log in at that listener, ACLs decide what they may do,
            and controllers want tokens (access.py).
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        brokers: int = 3,
        controllers: int = 1,
        zookeepers: int = 1,
        coordinators: int = 0,
        workers: int = 1,
        broker_config: Mapping[str, str] | None = None,
        coordinator_config: Mapping[str, str] | None = None,
        controller_flags: Sequence[str] = (),
        log_format: str = "text",
        force_sync: bool = True,
        zookeeper_heap: str = HEAP_BYTES,
        name: str = DEFAULT_CLUSTER,
        first_ports: FirstPorts | None = None,
        creates_cluster: bool = True,
        on_progress: Callable[[str], None] | None = None,
        place_of: PlaceOf = this_machine,
        is_secure: bool = False,
        sasl: Mapping[str, str] | None = None,
        has_users: bool = False,
    ) -> None:
        self._is_secure, self._has_users = is_secure, has_users
        self._sasl = LOGIN if has_users else sasl
        #: Once it is started, of a secure one.
        self.tls: ClusterTls | None = None
        self.tokens: RestTokens | None = None
        #: Once it is formed, of one that has users: what each logs in with.
        self.clients: dict[str, ClientFiles] = {}
        self._brokers, self._controllers, self._zookeepers = brokers, controllers, zookeepers
        self._coordinators = coordinators
        self._workers = workers
        self._broker_config = dict(broker_config or {})
        self._coordinator_config = dict(coordinator_config or {})
        self._controller_flags = tuple(controller_flags)
        self._log_format = log_format
        self._force_sync = force_sync
        self._zookeeper_heap = zookeeper_heap
        self.name = name
        self._given_directory = directory
        self._first_ports = first_ports
        self._creates_cluster = creates_cluster
        self._place_of = place_of
        self._tell = on_progress or (lambda line: None)
        self._ports = PortReservation()
        self._directory: Path | None = None
        self._zookeeper: ZooKeeper | None = None
        self._rest: httpx.Client | None = None
        self.controllers: dict[int, ControllerProcess] = {}
        self.brokers: dict[int, NodeProcess] = {}
        self.coordinators: dict[int, NodeProcess] = {}

    # --- life ---------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException as error:
            self.stop(keep_directory=isinstance(error, Exception))
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Ctrl-C and SIGTERM (SystemExit) are ways to end, not failures whose logs are needed.
        self.stop(keep_directory=kind is not None and issubclass(kind, Exception))

    def start(self) -> None:
        """Start every process and create the cluster; brokers and coordinators listen afterwards and wait for
        admission.

        Raises:
            JavaNotFound, ZooKeeperJarsNotFound, PortTaken, ProcessFailed: with what to do about it.
        """
        java = find_java()
        if self._given_directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="springtide-"))
        else:
            self._directory = self._given_directory.resolve()
            self._directory.mkdir(parents=True, exist_ok=True)
        if self._is_secure:
            self.tls = ClusterTls(self._directory / "certificates")
        if self._has_users:
            self.tokens = RestTokens(self._directory / "clients")
        first = self._first_ports
        self._zookeeper = ZooKeeper(
            directory=self.directory,
            ports=[
                ZooKeeperPorts(
                    client=self._reserve(None if first is None else first.zookeeper + index),
                    quorum=self._ports.reserve_free(),
                    election=self._ports.reserve_free(),
                    address=self._place_of(f"zookeeper-{index + 1}").address,
                )
                for index in range(self._zookeepers)
            ],
            java=java,
            log_directory=self.log_directory,
            force_sync=self._force_sync,
            place_of=self._place_of,
            tls=None if self.tls is None else self.tls.zookeeper,
            heap=self._zookeeper_heap,
        )
        for index in range(1, self._controllers + 1):
            port = self._reserve(None if first is None else first.controller + index - 1)
            self.controllers[index] = self._describe_controller(index, port)
        for broker_id in range(1, self._brokers + 1):
            self.brokers[broker_id] = self._describe_broker(broker_id)
        for coordinator_id in range(FIRST_COORDINATOR_ID, FIRST_COORDINATOR_ID + self._coordinators):
            self.coordinators[coordinator_id] = self._describe_coordinator(coordinator_id)
        verify = True if self.tls is None else self.tls.context
        token = None if self.tokens is None else self.tokens.read()
        self._rest = open_rest_client(self.controller_urls, verify=verify, token=token)

        servers = (
            f"{len(self._zookeeper.servers)} servers" if len(self._zookeeper.servers) > 1 else "1 server"
        )
        self._tell(f"starting ZooKeeper ({servers}) on {self._zookeeper.connection_string}")
        self._zookeeper.begin_start()
        # Controllers wait for their ZooKeeper by themselves, and take as long to get going as it does.
        self._tell(f"starting {len(self.controllers)} controller(s): {', '.join(self.controller_urls)}")
        for controller in self.controllers.values():
            controller.process.start()
        self._zookeeper.wait_ready()
        for controller in self.controllers.values():
            self._wait_controller_ready(controller)
        # First the cluster, then its brokers, as an operator does: a broker that finds no cluster asks
        # again later.
        if self._creates_cluster:
            self._tell(f"creating cluster '{self.name}' (POST /clusters)")
            self.create_cluster()
        self._tell(f"starting {len(self.brokers)} broker(s): {self.bootstrap_servers}")
        if self.coordinators:
            self._tell(f"starting {len(self.coordinators)} coordinator(s): {endpoints_of(self.coordinators)}")
        nodes = [*self.brokers.values(), *self.coordinators.values()]
        for node in nodes:
            node.process.start()
        for node in nodes:
            self._wait_listens(node)

    def stop(self, *, keep_directory: bool = False) -> None:
        """Stop everything in the order of dependence, give the ports back, and remove a folder of its own
        making."""
        coordinators = [coordinator.process for coordinator in self.coordinators.values()]
        brokers = [broker.process for broker in self.brokers.values()]
        controllers = [controller.process for controller in self.controllers.values()]
        for together in (coordinators, brokers, controllers):
            for process in together:
                process.begin_stop()
            for process in together:
                if not process.stop(timeout_seconds=STOP_SECONDS_MAX):
                    self._tell(
                        f"{process.name} did not stop on SIGTERM and was killed; see {process.log_path}"
                    )
        if self._zookeeper is not None:
            self._zookeeper.stop()
        if self._rest is not None:
            self._rest.close()
        self._ports.close()
        if self._directory is not None and self._given_directory is None:
            if keep_directory:
                self._tell(f"logs and data are kept in {self._directory}")
            else:
                shutil.rmtree(self._directory, ignore_errors=True)

    def form(self) -> None:
        """Admit every broker and coordinator: afterwards topics can be created, and groups joined."""
        self._tell(
            f"admitting brokers {', '.join(map(str, self.brokers))} (POST /clusters/{self.name}/brokers)"
        )
        self.add_brokers()
        if self.coordinators:
            ids = ", ".join(map(str, self.coordinators))
            self._tell(f"admitting coordinators {ids} (POST /clusters/{self.name}/coordinators)")
            self.admit_coordinators()
        if self._has_users:
            self._tell(f"creating users and ACLs (PUT /clusters/{self.name}/users/alice, POST …/acls)")
            self.clients = self.access.give(self.api, self.name)

    def make_topics_on_first_use(self) -> None:
        """Let topics be made when clients first name them, with three replicas, or one on each broker."""
        configs = {
            "auto.create.topics.enable": "true",
            "default.replication.factor": str(min(3, len(self.brokers))),
        }
        self.api.post(f"/clusters/{self.name}/configs:alter", {"configs": configs})

    # --- where things are ---------------------------------------------------------------------------------

    @property
    def directory(self) -> Path:
        assert self._directory is not None, "the cluster has not been started"
        return self._directory

    @property
    def log_directory(self) -> Path:
        return self.directory / "logs"

    @property
    def access(self) -> Access:
        """Return what makes users and their files, of a cluster that has users."""
        assert self.tls is not None, "only a secure cluster has users"
        return Access(self.directory / "clients", self.sasl_bootstrap_servers, self.tls.ca)

    @property
    def bootstrap_servers(self) -> str:
        """Return the addresses that a Kafka client takes as `bootstrap.servers`."""
        return endpoints_of(self.brokers)

    @property
    def sasl_bootstrap_servers(self) -> str:
        """Return the addresses at which clients log in."""
        return ",".join(f"{broker.address}:{broker.sasl_port}" for broker in self.brokers.values())

    @property
    def controller_urls(self) -> list[str]:
        return [controller.url for controller in self.controllers.values()]

    @property
    def zookeeper(self) -> ZooKeeper:
        assert self._zookeeper is not None, "the cluster has not been started"
        return self._zookeeper

    @property
    def rest(self) -> httpx.Client:
        """The client whose relative URLs go to a controller that is up and follow 307 to the active one."""
        assert self._rest is not None, "the cluster has not been started"
        return self._rest

    @property
    def api(self) -> ControllerApi:
        """The usual calls, with retries and explanations."""
        return ControllerApi(self.rest)

    @property
    def processes(self) -> list[SupervisedProcess]:
        """Every process of the cluster, ZooKeeper first."""
        return [
            *(server.process for server in self.zookeeper.servers),
            *(controller.process for controller in self.controllers.values()),
            *(broker.process for broker in self.brokers.values()),
            *(coordinator.process for coordinator in self.coordinators.values()),
        ]

    # --- administration over REST -------------------------------------------------------------------------

    def create_cluster(self) -> Json:
        """`POST /clusters`; a cluster that is there already (a reused folder) is fine."""
        try:
            return self.api.create_cluster(self.name)
        except RestFailed as refused:
            if refused.status != httpx.codes.CONFLICT:
                raise
            return self.api.get(f"/clusters/{self.name}")

    def add_brokers(self, broker_ids: Sequence[int] | None = None) -> Json:
        """`POST /clusters/{c}/brokers` for these brokers (default: all); waits for the operation and
        returns it."""
        chosen = list(self.brokers) if broker_ids is None else list(broker_ids)
        self.require_alive()
        added = self.api.add_brokers(self.name, {b: self.brokers[b].registered for b in chosen})
        workers = sum(self.brokers[b].workers for b in chosen if self.brokers[b].workers > 1)
        if workers:  # one that registers later is admitted at once
            self.wait_until("every worker is active", lambda: self._active_workers(chosen) == workers)
        return added

    def _active_workers(self, broker_ids: Sequence[int]) -> int:
        listed = self.api.get(f"/clusters/{self.name}/brokers")["items"]
        found = [worker for each in listed if each["broker_id"] in broker_ids for worker in each["workers"]]
        return sum(worker["state"] == "active" for worker in found)

    def admit_coordinators(self) -> None:
        """`POST /clusters/{c}/coordinators` for all of them, once they have registered; returns when each is
        active and the topic of their shards is there."""
        path = f"/clusters/{self.name}/coordinators"

        def listed() -> list[Json]:
            items: list[Json] = self.api.get(path)["items"]
            return items

        self.wait_until(
            "every coordinator has registered",
            lambda: self.coordinators.keys() <= {item["coordinator_id"] for item in listed()},
        )
        self.api.post(path, {"coordinator_ids": list(self.coordinators)})
        self.wait_until(
            "coordinators serve groups",
            lambda: (
                all(item["state"] == "active" for item in listed()) and any(i["shards"] for i in listed())
            ),
        )

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 3,
        configs: Mapping[str, str] | None = None,
        assignments: Sequence[Sequence[int]] | None = None,
        wait: bool = True,
    ) -> Json:
        """`POST /topics`; with `wait`, returns once every partition has a leader and a full ISR. assignments:
        the brokers of each partition; None: the controller chooses."""
        topic = self.api.create_topic(
            self.name,
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs or {},
            assignments=assignments,
        )
        if wait:
            self.wait_until_in_sync(name)
        return topic

    def delete_topic(self, name: str) -> None:
        """`DELETE` the topic; return when its files are gone."""
        answer = self.rest.delete(f"/clusters/{self.name}/topics/{name}")
        if not answer.is_success:
            raise describe_refusal(answer)
        self.api.wait_for_operation(answer)

    def partitions(self, topic: str) -> list[RestPartition]:
        return self.api.partitions(self.name, topic)

    def partition(self, topic: str, partition: int) -> RestPartition:
        return self.partitions(topic)[partition]

    def leader(self, topic: str, partition: int) -> int:
        """The leader's broker id; waits while there is none."""
        return self.wait_until(
            f"{topic}-{partition} has a leader", lambda: self.partition(topic, partition).leader or None
        )

    def audit(self, **wanted: str) -> list[Json]:
        """The newest page of the audit's rows that have these values: names and values of `GET /audit`'s
        parameters. Without them, a restart in a cluster of many partitions fills the page by itself."""
        rows: list[Json] = self.api.get(f"/audit?{urlencode({'cluster': self.name, **wanted})}")["items"]
        return rows

    # --- waiting ------------------------------------------------------------------------------------------

    def wait_until(
        self, what: str, condition: Callable[[], T | None], *, timeout_seconds: float = WAIT_SECONDS_MAX
    ) -> T:
        """Poll `condition` until it is neither None nor False, and return that value.

        A refusal or a silent API counts as "not yet": conditions are asked in the middle of failovers.

        Raises:
            WaitedTooLong: the time is over.
            ProcessFailed: a process of the cluster ended without being asked to.
        """
        deadline = time.monotonic() + timeout_seconds
        last_error: Exception | None = None
        while True:
            try:
                value = condition()
                last_error = None
            except (httpx.TransportError, RestFailed) as error:
                value, last_error = None, error
            if value is not None and value is not False:
                return value
            self.require_alive()
            if time.monotonic() > deadline:
                seen = f"; last error: {last_error}" if last_error is not None else ""
                raise WaitedTooLong(f"after {timeout_seconds:g} s still not: {what}{seen}")
            time.sleep(WAIT_POLL_SECONDS)

    def wait_until_in_sync(
        self, topic: str, *, timeout_seconds: float = WAIT_SECONDS_MAX
    ) -> list[RestPartition]:
        """Wait until every partition has a leader and all its replicas in the ISR; return the partitions."""

        def in_sync() -> list[RestPartition] | None:
            views = self.partitions(topic)
            complete = all(view.leader is not None and set(view.isr) == set(view.replicas) for view in views)
            return views if views and complete else None

        return self.wait_until(
            f"every replica of {topic} is in sync", in_sync, timeout_seconds=timeout_seconds
        )

    def excuse_ended(self) -> list[SupervisedProcess]:
        """Return the processes that ended although we did not end them. From now on that is no failure: the
        user stopped or killed them, and may start them again."""
        ended = [process for process in self.processes if process.has_failed]
        for process in ended:
            process.stop()
        return ended

    def require_alive(self) -> None:
        """Raise `ProcessFailed` if a process ended that was not stopped or killed."""
        for process in self.processes:
            if process.has_failed:
                raise ProcessFailed(f"{process.name} ended with {process.exit_code}.{process.last_words()}")

    # --- breaking and mending -----------------------------------------------------------------------------

    def kill_broker(self, broker_id: int) -> None:
        """Send SIGKILL: nothing is flushed, no peer is told."""
        self.brokers[broker_id].process.kill()

    def stop_broker(self, broker_id: int) -> None:
        """SIGTERM: a controlled shutdown, which moves leadership away first."""
        self.brokers[broker_id].process.stop()

    def start_broker(self, broker_id: int) -> None:
        """Start it again on the same port and disk; it listens afterwards (and is in the ISR some time
        later)."""
        broker = self.brokers[broker_id]
        broker.process.start()
        self._wait_listens(broker)

    def kill_coordinator(self, coordinator_id: int) -> None:
        """SIGKILL."""
        self.coordinators[coordinator_id].process.kill()

    def start_coordinator(self, coordinator_id: int) -> None:
        """Start it again on the same port; it listens afterwards."""
        coordinator = self.coordinators[coordinator_id]
        coordinator.process.start()
        self._wait_listens(coordinator)

    def wipe_broker_disk(self, broker_id: int) -> None:
        """Replace the disk of a broker that is not running by an empty one."""
        broker = self.brokers[broker_id]
        if broker.process.is_running:
            raise ProcessFailed(
                f"{broker.process.name} is running; a disk is replaced while the machine is off"
            )
        shutil.rmtree(broker.data_directory, ignore_errors=True)
        broker.data_directory.mkdir(parents=True)

    def active_controller(self) -> int:
        """The index of the controller that is active; waits while there is none."""

        def active() -> int | None:
            for controller in self.controllers.values():
                if controller.process.is_running and (controller.readiness() or {}).get("role") == "active":
                    return controller.index
            return None

        return self.wait_until("a controller is active", active)

    def kill_controller(self, index: int) -> None:
        """SIGKILL."""
        self.controllers[index].process.kill()

    def start_controller(self, index: int) -> None:
        """Start it again and wait until it is ready, as the active one or as a standby."""
        controller = self.controllers[index]
        controller.process.start()
        self._wait_controller_ready(controller)

    def restart_zookeeper(self) -> None:
        """SIGKILL every ZooKeeper server and start them again on the same data; it serves afterwards."""
        self.zookeeper.restart()

    # --- commands -----------------------------------------------------------------------------------------

    def _reserve(self, preferred: int | None, *, count: int = 1) -> int:
        if preferred is not None and self._first_ports is not None and self._first_ports.required:
            return self._ports.reserve(preferred, count=count)
        return self._ports.reserve_free(preferred=preferred, count=count)

    def _describe_controller(self, index: int, port: int) -> ControllerProcess:
        place = self._place_of(f"controller-{index}")
        # One SQL file for all of them: the audit trail belongs to the service, not to one of its processes.
        scheme = "http" if self.tls is None else "https"
        arguments = [
            *(place.python, "-m", "controller", "serve"),
            *("--listen", f"{place.address}:{port}"),
            *("--advertise", f"{scheme}://{place.address}:{port}"),
            *(() if self.tls is None else self.tls.controller_flags),
            *(() if self.tokens is None else self.tokens.controller_flags),
            *("--zookeeper", self.zookeeper.connection_string),
            *("--database-url", f"sqlite:///{self.directory / 'audit.db'}"),
            *(() if place.address == LOOPBACK else ("--allow-anonymous", INSECURE_NETWORK)),
            *("--log-format", self._log_format),
            *self._controller_flags,
        ]
        process = SupervisedProcess(
            name=f"controller {index}",
            command=place.run(
                ProcessCommand(arguments=arguments, working_directory=self.directory / f"controller-{index}")
            ),
            log_path=self.log_directory / f"controller-{index}.log",
        )
        return ControllerProcess(
            index=index,
            port=port,
            process=process,
            address=place.address,
            tls=None if self.tls is None else self.tls.context,
        )

    def _describe_broker(self, broker_id: int) -> NodeProcess:
        first = self._first_ports
        data_directory = self.directory / f"broker-{broker_id}" / "data"
        return self._describe_node(
            "broker",
            broker_id,
            first_ports=None if first is None else (first.broker, first.broker_metrics),
            index=broker_id - 1,
            command=(
                *("dataplane", "serve", "--data-dir", str(data_directory)),
                *_config_flags(self._broker_config),
            ),
            workers=self._workers,
        )

    def _describe_coordinator(self, coordinator_id: int) -> NodeProcess:
        first = self._first_ports
        return self._describe_node(
            "coordinator",
            coordinator_id,
            first_ports=None if first is None else (first.coordinator, first.coordinator_metrics),
            index=coordinator_id - FIRST_COORDINATOR_ID,
            command=("coordinator", "serve", *_config_flags(self._coordinator_config)),
        )

    def _describe_node(
        self,
        kind: str,
        node_id: int,
        *,
        first_ports: tuple[int, int] | None,
        index: int,
        command: Sequence[str],
        workers: int = 1,
    ) -> NodeProcess:
        """Describe the process of a node. first_ports: of this kind's first node, for clients and metrics.
        command: the module to run, with the arguments that only this kind has."""
        name = f"{kind}-{node_id}"
        place = self._place_of(name)
        port, metrics_port = (
            self._reserve(None if first is None else first + index * workers, count=workers)
            for first in first_ports or (None, None)
        )
        directory = self.directory / name
        peers_port, sasl_port = port, 0
        listen: Sequence[str] = ("--listen", f"{place.address}:{port}")
        if place.address != LOOPBACK:
            listen = (*listen, INSECURE_NETWORK)
        if self.tls is not None:
            peers_port = self._ports.reserve_free(count=workers)
            sasl_port = 0 if self._sasl is None else self._ports.reserve_free(count=workers)
            if self._has_users:  # Clients find it where they look first.
                port, sasl_port = sasl_port, port
            listen = self.tls.node_flags(
                place.address, port=port, peers_port=peers_port, sasl_port=sasl_port, sasl=self._sasl
            )
        if self.tokens is not None:
            listen = (*listen, *self.tokens.node_flags)
        arguments = [
            *(place.python, "-m", *command),
            *("--cluster", self.name),
            *(f"--{kind}-id", str(node_id)),
            *listen,
            *("--metrics-listen", f"{place.address}:{metrics_port}"),
            *("--controllers", ",".join(self.controller_urls)),
            *("--log-format", self._log_format),
            *(("--workers", str(workers)) if workers > 1 else ()),
        ]
        process = SupervisedProcess(
            name=f"{kind} {node_id}",
            command=place.run(ProcessCommand(arguments=arguments, working_directory=directory)),
            log_path=self.log_directory / f"{name}.log",
        )
        return NodeProcess(
            port=port,
            peers_port=peers_port,
            sasl_port=sasl_port,
            metrics_port=metrics_port,
            directory=directory,
            process=process,
            address=place.address,
            tls=None if self.tls is None else self.tls.known,
            workers=workers,
        )

    def _wait_controller_ready(self, controller: ControllerProcess) -> None:
        controller.process.wait_ready(lambda: controller.readiness() is not None)

    def _wait_listens(self, node: NodeProcess) -> None:
        node.process.wait_ready(lambda: node.is_listening)
