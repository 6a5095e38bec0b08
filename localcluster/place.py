"""Where a process of the cluster runs. This machine, unless a test gives each process a host of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from localcluster.ports import LOOPBACK
from localcluster.processes import Command


@dataclass(frozen=True, slots=True)
class Place:
    """One host, as its processes and those who talk to them see it.

    address: what the process listens on, and others reach it at.
    prefix: put before the process's command: a program that moves into the host and then becomes the rest.
    environment: added to the process's.
    """

    address: str = LOOPBACK
    prefix: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, command: Command) -> Command:
        """The command, to be run here."""
        return Command(
            arguments=[*self.prefix, *command.arguments],
            working_directory=command.working_directory,
            environment={**command.environment, **self.environment},
        )


PlaceOf = Callable[[str], Place]
"""The place of a process by its host's name: `broker-1`, `controller-1`, `zookeeper-1`."""


def this_machine(host: str) -> Place:
    """Everything on loopback."""
    return Place()
