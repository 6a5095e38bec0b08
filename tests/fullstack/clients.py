"""The machine that clients run on: their network, their clock, and the history that they write together."""

from __future__ import annotations

from tests.checker.history import History, Operation
from tests.fullstack.net import Network
from tests.fullstack.process_life import Life
from tests.fullstack.sockets import SimNet
from tests.fullstack.world import World

NAME = "clients"


class ClientHost:
    """All clients of a run. It never fails; what is between it and the brokers may."""

    def __init__(self, world: World, network: Network) -> None:
        self.world = world
        self.machine = network.add(NAME)
        self.life = Life(world, NAME, 1)
        self.net = SimNet(network, self.life, self.machine)
        self.bootstrap: list[tuple[str, int]] = []
        self._operations: list[Operation] = []

    def record(self, operation: Operation) -> None:
        self._operations.append(operation)
        first = operation.items[0] if operation.items else ""
        self.world.trace(f"{operation.process} {operation.f} {operation.type} {first} {operation.error}")

    def history(self) -> History:
        return History.of(self._operations)

    @property
    def operations(self) -> list[Operation]:
        return self._operations
