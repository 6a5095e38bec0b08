"""The network of the simulated hosts: a switch, a namespace with one address for each host, and its faults.

    clients ──┐
    broker-1 ─┼─ bridge in the namespace `switch`
    broker-2 ─┘

The process that builds it is the host `clients`: what runs in this process, threads of C clients included,
talks to the cluster over this network and over nothing else.

Faults are rules of the packet filter in the *victim's* namespace, so that its neighbours notice nothing but
its silence. A host's rules are replaced together in one transaction: there is no moment in which half a
partition holds.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Self

from tests.faults.hosts.sandbox import NETNS_FOLDER, require_sandbox, run

SWITCH = "switch"
BRIDGE = "bridge"
CLIENTS = "clients"
NET_PREFIX = "10.77.0"
PREFIX_BITS = 24
INTERFACE = "eth0"
HOSTS_MAX = 200
TABLE = "faults"


class Direction(StrEnum):
    IN = "in"
    """Packets to the victim: it speaks and does not hear."""
    OUT = "out"
    """Packets from the victim: it hears and does not speak."""
    BOTH = "both"


class Act(StrEnum):
    DROP = "drop"
    """Silence, as of a cut cable."""
    RESET = "reset"
    """A TCP reset to whoever sent the packet, as of a firewall that forgot its connections."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens to packets between a victim and its peers.

    peers: names of hosts; empty means all.
    port: TCP port on which the victim is *asked*: with it, what the victim asks of others goes on. None: all
        packets.
    percent: of the packets, chosen at random.
    """

    peers: frozenset[str] = frozenset()
    direction: Direction = Direction.BOTH
    port: int | None = None
    act: Act = Act.DROP
    percent: int = 100


@dataclass(slots=True, eq=False)
class Cut:
    """Rules that hold until `heal`; leaving a `with` block heals too."""

    network: Network
    rules: dict[str, Rule]
    """By victim."""
    is_healed: bool = field(default=False)

    def heal(self) -> None:
        """Ends these rules; others of the same hosts go on. Connections that lived through it continue."""
        if not self.is_healed:
            self.is_healed = True
            self.network.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()


class Network:
    """Hosts by name. Needs the sandbox, see sandbox.py; `close` is only for tidiness, the kernel would do
    it."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self.addresses: dict[str, str] = {
            name: f"{NET_PREFIX}.{number}" for number, name in enumerate([CLIENTS, *hosts], start=1)
        }
        assert len(self.addresses) <= HOSTS_MAX
        self._cuts: list[Cut] = []
        self._lock = threading.Lock()

    @property
    def hosts(self) -> list[str]:
        """All but the clients'."""
        return [name for name in self.addresses if name != CLIENTS]

    def open(self) -> None:
        """Builds the namespaces and the wires between them."""
        require_sandbox()
        run("ip", "netns", "add", SWITCH)
        run(
            "ip",
            "-n",
            SWITCH,
            "link",
            "add",
            BRIDGE,
            "type",
            "bridge",
            "stp_state",
            "0",
            "forward_delay",
            "0",
        )
        run("ip", "-n", SWITCH, "link", "set", BRIDGE, "up")
        run("ip", "netns", "attach", CLIENTS, str(os.getpid()))
        for number, (name, address) in enumerate(self.addresses.items(), start=1):
            if name != CLIENTS:
                run("ip", "netns", "add", name)
                run("ip", "-n", name, "link", "set", "lo", "up")
            port = f"port{number}"
            run(
                *("ip", "link", "add", port, "netns", SWITCH, "type", "veth"),
                *("peer", "name", INTERFACE, "netns", name),
            )
            run("ip", "-n", SWITCH, "link", "set", port, "master", BRIDGE, "up")
            run("ip", "-n", name, "address", "add", f"{address}/{PREFIX_BITS}", "dev", INTERFACE)
            run("ip", "-n", name, "link", "set", INTERFACE, "up")

    def close(self) -> None:
        # The kernel clears a deleted namespace later: a network that is opened next would meet this wire.
        if (NETNS_FOLDER / CLIENTS).exists() and INTERFACE in run("ip", "-brief", "link"):
            run("ip", "link", "delete", INTERFACE)
        for name in [*self.hosts, SWITCH, CLIENTS]:
            if (NETNS_FOLDER / name).exists():
                run("ip", "netns", "delete", name)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- faults -------------------------------------------------------------------------------------------

    def cut(
        self,
        victim: str,
        peers: Iterable[str] = (),
        *,
        direction: Direction = Direction.BOTH,
        port: int | None = None,
    ) -> Cut:
        """Silence between the victim and its peers (default: everybody), see `Rule`."""
        return self.impose({victim: Rule(frozenset(peers), direction, port)})

    def reset(self, victim: str, peers: Iterable[str] = (), *, port: int | None = None) -> Cut:
        """Every packet between them is answered with a TCP reset: connections end, new ones are refused."""
        return self.impose({victim: Rule(frozenset(peers), port=port, act=Act.RESET)})

    def lose(self, victim: str, peers: Iterable[str] = (), *, percent: int) -> Cut:
        """Loses some packets between them, in both directions."""
        return self.impose({victim: Rule(frozenset(peers), percent=percent)})

    def split(self, one_side: Iterable[str], other_side: Iterable[str]) -> Cut:
        """Nobody of one side hears anybody of the other. Hosts of neither side hear both."""
        other = frozenset(other_side)
        return self.impose({victim: Rule(other) for victim in one_side})

    def impose(self, rules: dict[str, Rule]) -> Cut:
        """Rules by victim, until the cut that is returned is healed."""
        cut = Cut(self, dict(rules))
        with self._lock:
            self._cuts.append(cut)
            self._apply(cut.rules)
        return cut

    def remove(self, cut: Cut) -> None:
        with self._lock:
            if cut in self._cuts:
                self._cuts.remove(cut)
                self._apply(cut.rules)

    def heal_all(self) -> None:
        """Ends every cut."""
        with self._lock:
            victims = {victim: None for cut in self._cuts for victim in cut.rules}
            for cut in self._cuts:
                cut.is_healed = True
            self._cuts.clear()
            self._apply(victims)

    def _apply(self, victims: Iterable[str]) -> None:
        for victim in victims:
            held = [cut.rules[victim] for cut in self._cuts if victim in cut.rules]
            run("ip", "netns", "exec", victim, "nft", "-f", "-", stdin=self.render(held))

    def render(self, rules: Iterable[Rule]) -> str:
        """The victim's whole table as nft takes it; the chains are emptied and filled in one transaction."""
        lines = [f"add table inet {TABLE}"]
        for hook in ("input", "output"):
            lines.append(f"add chain inet {TABLE} {hook} {{ type filter hook {hook} priority 0; }}")
            lines.append(f"flush chain inet {TABLE} {hook}")
        for rule in rules:
            for hook in ("input", "output"):
                if (hook, rule.direction) in (("input", Direction.OUT), ("output", Direction.IN)):
                    continue
                lines.append(f"add rule inet {TABLE} {hook} {self._render_rule(rule, hook)}")
        return "\n".join(lines) + "\n"

    def _render_rule(self, rule: Rule, hook: str) -> str:
        # Never the victim's own loopback: a host that is cut off still reaches itself.
        is_input = hook == "input"
        parts = [f'{"iifname" if is_input else "oifname"} "{INTERFACE}"']
        if rule.peers:
            addresses = ", ".join(sorted(self.addresses[peer] for peer in rule.peers))
            parts.append(f"ip {'saddr' if is_input else 'daddr'} {{ {addresses} }}")
        if rule.port is not None:
            parts.append(f"tcp {'dport' if is_input else 'sport'} {rule.port}")
        if rule.act is Act.RESET:
            parts.append("tcp flags & rst == 0")  # The reset itself must get out.
        if rule.percent < 100:
            parts.append(f"numgen random mod 100 < {rule.percent}")
        parts.append("drop" if rule.act is Act.DROP else "reject with tcp reset")
        return " ".join(parts)
