"""One `controller serve` as a process, asked over HTTP, and brokers that know only it."""

from __future__ import annotations

import ssl
import sys
import time
from pathlib import Path

import httpx

from localcluster.ports import LOOPBACK
from localcluster.processes import ProcessCommand, SupervisedProcess
from localcluster.zookeeper import ZooKeeper

START_SECONDS_MAX = 40.0
SESSION_TIMEOUT_MS = 4_000


class ControllerProcess:
    """One `controller serve`, asked over HTTP. tls: for one that is started with `--tls-cert`."""

    def __init__(
        self,
        name: str,
        port: int,
        zookeeper: ZooKeeper,
        root: str,
        directory: Path,
        *flags: str,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.url = f"{'https' if tls else 'http'}://{LOOPBACK}:{port}"
        self.http = httpx.Client(base_url=self.url, timeout=30, verify=tls or True)
        arguments = [
            *(sys.executable, "-m", "controller", "serve", "--listen", f"{LOOPBACK}:{port}"),
            *("--zookeeper", zookeeper.connection_string, "--zookeeper-root", root),
            *("--zookeeper-session-timeout-ms", str(SESSION_TIMEOUT_MS)),
            *("--database-url", f"sqlite:///{directory}/audit.db"),
            *flags,
        ]
        self.process = SupervisedProcess(
            name=name,
            command=ProcessCommand(arguments=arguments, working_directory=directory),
            log_path=directory / f"{name}.log",
        )

    def start(self) -> None:
        self.process.start()
        self.process.wait_ready(lambda: self.metric("activecontrollercount") is not None)

    def metric(self, name: str, *, prefix: str = "kafka_controller_kafkacontroller_") -> float | None:
        """Return the value of a metric, or None while the process does not answer."""
        try:
            text = self.http.get("/metrics").text
        except httpx.TransportError:
            return None
        for line in text.splitlines():
            if line.startswith(f"{prefix}{name} "):
                return float(line.split()[1])
        return None

    def cluster_metric(self, name: str) -> float | None:
        """Return the value of a metric of the only cluster."""
        for line in self.http.get("/metrics").text.splitlines():
            if line.startswith(f"kafka_controller_kafkacontroller_{name}{{"):
                return float(line.split()[1])
        return None

    @property
    def is_active(self) -> bool:
        return self.metric("activecontrollercount") == 1

    def until_active(self, timeout_seconds: float) -> float:
        """Returns how long it took."""
        started = time.monotonic()
        while not self.is_active:
            assert time.monotonic() - started < timeout_seconds, self.process.last_words()
            time.sleep(0.005)
        return time.monotonic() - started

    def until_watching(self, other: ControllerProcess) -> None:
        """Waits until this controller holds a connection to the other's listener."""
        self.process.wait_ready(lambda: f"standby_watches url={other.url}" in self.log())

    def create_cluster(self, name: str) -> int:
        return self.http.post("/clusters", json={"name": name}, follow_redirects=False).status_code

    def log(self) -> str:
        return self.process.log_path.read_text(encoding="utf-8")


def broker_process(
    broker_id: int, port: int, controller: ControllerProcess, directory: Path, *flags: str
) -> SupervisedProcess:
    arguments = [
        *(sys.executable, "-m", "dataplane", "serve", "--cluster", "prod", "--broker-id", str(broker_id)),
        *("--listen", f"{LOOPBACK}:{port}", "--controllers", controller.url),
        *("--data-dir", str(directory / f"data-{broker_id}"), *flags),
    ]
    return SupervisedProcess(
        name=f"broker {broker_id}",
        command=ProcessCommand(arguments=arguments, working_directory=directory),
        log_path=directory / f"broker-{broker_id}.log",
    )
