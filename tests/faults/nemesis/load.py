"""The load of a run: processes of stock clients, started, watched, ended, and their histories merged."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localcluster.processes import ProcessCommand, SupervisedProcess
from tests.checker.history import Operation, read_history
from tests.faults.nemesis.worker import CONSUMER, FLUSH_SECONDS_MAX, KAFKA_PYTHON, PRODUCER, TRANSACTIONS

ROOT = Path(__file__).resolve().parents[3]
STOP_SECONDS_MAX = FLUSH_SECONDS_MAX + 30.0


@dataclass(frozen=True, slots=True)
class Client:
    """role: see worker.py. rate: records a second, of a producer; or transactions. kafka_home: the client is
    Kafka's own, in its libs/."""

    name: str
    role: str
    rate: float = 0.0
    kafka_home: Path | None = None


CLIENTS = (
    Client("librdkafka-1", PRODUCER, 200),
    Client("librdkafka-2", PRODUCER, 200),
    Client("kafka-python-1", KAFKA_PYTHON, 50),
    Client("reader-1", CONSUMER),
    Client("reader-2", CONSUMER),
)

VERSION_2 = "java-"
"""How clients' names begin that speak version 2 of transactions."""
TRANSACTIONS_PER_SECOND = 6
"""Of one client. Each is a dozen small appends, so few are enough for the two cores of a CI."""


def transactional_clients(kafka_home: Path | None) -> tuple[Client, ...]:
    """Return four clients that write, of which half are Java's where there is one, and two that read: what
    was committed, and no more, which is the client's default."""
    java = 0 if kafka_home is None else 2
    return (
        *(
            Client(f"transactions-{number}", TRANSACTIONS, TRANSACTIONS_PER_SECOND)
            for number in range(1, 5 - java)
        ),
        *(
            Client(f"{VERSION_2}{number}", TRANSACTIONS, TRANSACTIONS_PER_SECOND, kafka_home)
            for number in range(1, 1 + java)
        ),
        Client("reader-1", CONSUMER),
        Client("reader-2", CONSUMER),
    )


class Load:
    """Clients by name; their histories and logs are files in `directory`."""

    def __init__(
        self,
        *,
        directory: Path,
        bootstrap_servers: str,
        topic: str,
        partitions: int,
        clients: Sequence[Client] = CLIENTS,
    ) -> None:
        self._clients = clients
        self._histories = {client.name: directory / f"history-{client.name}.jsonl" for client in clients}
        self.processes = {
            client.name: SupervisedProcess(
                name=client.name,
                command=ProcessCommand(
                    arguments=[
                        *(sys.executable, "-m", "tests.faults.nemesis.worker", client.role),
                        *("--bootstrap", bootstrap_servers),
                        *("--topic", topic),
                        *("--partitions", str(partitions)),
                        *("--name", client.name),
                        *("--history", str(self._histories[client.name])),
                        *("--rate", str(client.rate)),
                        *(("--kafka-home", str(client.kafka_home)) if client.kafka_home else ()),
                    ],
                    working_directory=ROOT,
                ),
                log_path=directory / "logs" / f"{client.name}.log",
            )
            for client in clients
        }

    def start(self) -> None:
        for process in self.processes.values():
            process.start()

    def ended(self) -> list[str]:
        """What those say that ended without being asked to."""
        return [
            f"{process.name} ended with {process.exit_code}.{process.last_words()}"
            for process in self.processes.values()
            if process.has_failed
        ]

    def stop(self, *, producers: bool) -> list[str]:
        """Ends all producers, or all readers, side by side; what went wrong, one line each."""
        wrong = []
        chosen = [
            self.processes[client.name]
            for client in self._clients
            if (client.role != CONSUMER) is producers and self.processes[client.name].is_running
        ]
        for process in chosen:
            process.begin_stop()
        for process in chosen:
            if not process.stop(timeout_seconds=STOP_SECONDS_MAX):
                wrong.append(f"{process.name} did not end in {STOP_SECONDS_MAX:g} s")
            elif process.exit_code != 0:
                wrong.append(f"{process.name} ended with {process.exit_code}.{process.last_words()}")
        return wrong

    def kill(self) -> None:
        """After this nothing of the load runs; for the way out of a failure."""
        for process in self.processes.values():
            process.kill()

    def operations(self) -> list[Operation]:
        """What all clients did. Call it after `stop`: then every line is whole."""
        done: list[Operation] = []
        for path in self._histories.values():
            with path.open("rb") as stream:
                done += read_history(stream, name=path.name).operations
        return done
