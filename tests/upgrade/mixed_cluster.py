"""A cluster of real processes, each of which runs the last release or this one."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from localcluster.cluster import ControllerProcess, LocalCluster, NodeProcess
from localcluster.processes import ProcessPlace, SupervisedProcess
from tests.upgrade.paths import BROKERS, CONTROLLERS, COORDINATORS, PROCESSES, Release, Step

#: The environment's own packages are meant, not those of a folder that the tests run in.
ENVIRONMENTS: Mapping[Release, Mapping[str, str]] = {Release.LAST: {"PYTHONPATH": ""}, Release.THIS: {}}
WHOLE_SECONDS_MAX = 120.0
UNREADABLE = re.compile(
    r"cluster_corrupt|cluster_incomplete|metadata_conflict|term_failed|step_failed|request_failed|audit_row_refused"
    r"|log_failed|log_damaged|log_rotten|log_short|log_directory_problem|log_not_taken_up|copy_unreadable"
    r"|log_unreadable|description_corrupt|progress_unreadable|log_directory_refused|shard_failed|answer_failed"
    r"|answer_ignored|connection_failed|database_not_ready|Traceback"
)
"""What a process logs when it meets what it can't read, or ends by an error that nobody foresaw."""


class MixedCluster(LocalCluster):
    """Two controllers, three brokers and two coordinators, all of the last release at first.

    last: its interpreter. pythons: those of both releases.
    """

    def __init__(self, directory: Path, last: Path, *, tell: Callable[[str], None]) -> None:
        self.pythons = {Release.LAST: str(last), Release.THIS: sys.executable}
        self.runs = dict.fromkeys(PROCESSES, Release.LAST)
        super().__init__(
            directory,
            brokers=BROKERS,
            controllers=CONTROLLERS,
            coordinators=COORDINATORS,
            on_progress=tell,
            place_of=self._place,
        )

    def _place(self, host: str) -> ProcessPlace:
        release = self.runs.get(host, Release.LAST)
        return ProcessPlace(python=self.pythons[release], environment=ENVIRONMENTS[release])

    def node(self, process: str) -> ControllerProcess | NodeProcess:
        kind, _, number = process.partition("-")
        match kind:
            case "controller":
                return self.controllers[int(number)]
            case "broker":
                return self.brokers[int(number)]
            case _:
                return self.coordinators[int(number)]

    def process(self, name: str) -> SupervisedProcess:
        return self.node(name).process

    def take(self, step: Step) -> bool:
        """End the process and start it as the step says; return whether it ended as it was asked to."""
        process = self.process(step.process)
        ended = True
        if step.is_kill:
            process.kill()
        else:
            ended = process.stop()
        self.runs[step.process] = step.release
        process.command = dataclasses.replace(
            process.command,
            arguments=[self.pythons[step.release], *process.command.arguments[1:]],
            environment=ENVIRONMENTS[step.release],
        )
        process.start()
        return ended

    def roll(self, process: str, release: Release) -> None:
        """Stop it as an operator does, and start it as this release."""
        self.take(Step(process, release, is_kill=False))

    def wait_until_whole(self, topic: str) -> None:
        """Wait until every process serves, every broker and coordinator is active and every replica of the
        topic in sync."""

        def whole() -> bool:
            for controller in self.controllers.values():
                if controller.readiness() is None:
                    return False
            for node in (*self.brokers.values(), *self.coordinators.values()):
                if not node.is_listening:
                    return False
            listed = [
                item
                for kind in ("brokers", "coordinators")
                for item in self.api.get(f"/clusters/{self.name}/{kind}")["items"]
            ]
            if any(item["state"] != "active" for item in listed):
                return False
            views = self.partitions(topic)
            return all(view.leader is not None and set(view.isr) == set(view.replicas) for view in views)

        self.wait_until("the cluster is whole", whole, timeout_seconds=WHOLE_SECONDS_MAX)

    def unreadable(self) -> list[str]:
        """Return the lines of the processes' logs that say that something can't be read."""
        found: list[str] = []
        for name in PROCESSES:
            text = self.process(name).log_path.read_text(encoding="utf-8", errors="replace")
            found += [f"{name}: {line[:300]}" for line in text.splitlines() if UNREADABLE.search(line)]
        return found
