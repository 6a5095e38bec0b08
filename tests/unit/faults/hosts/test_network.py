"""The rules that the packet filter of a simulated host gets: who is cut, which way, of which port."""

from __future__ import annotations

from tests.faults.hosts.network import Act, Direction, Network, Rule

NETWORK = Network(["broker-1", "broker-2"])
CLIENTS, ONE, TWO = "10.77.0.1", "10.77.0.2", "10.77.0.3"


def rules(*imposed: Rule) -> list[str]:
    """What is added to the chains, in order."""
    lines = NETWORK.render(imposed).splitlines()
    return [line.removeprefix("add rule inet faults ") for line in lines if line.startswith("add rule ")]


def test_a_cut_drops_both_ways_and_never_on_loopback() -> None:
    assert rules(Rule(frozenset({"broker-2", "clients"}))) == [
        f'input iifname "eth0" ip saddr {{ {CLIENTS}, {TWO} }} drop',
        f'output oifname "eth0" ip daddr {{ {CLIENTS}, {TWO} }} drop',
    ]


def test_one_direction_leaves_the_other_alone() -> None:
    assert rules(Rule(frozenset({"broker-2"}), Direction.IN)) == [
        f'input iifname "eth0" ip saddr {{ {TWO} }} drop'
    ]
    assert rules(Rule(frozenset({"broker-2"}), Direction.OUT)) == [
        f'output oifname "eth0" ip daddr {{ {TWO} }} drop'
    ]


def test_a_reset_lets_the_reset_itself_out() -> None:
    assert rules(Rule(act=Act.RESET)) == [
        'input iifname "eth0" tcp flags & rst == 0 reject with tcp reset',
        'output oifname "eth0" tcp flags & rst == 0 reject with tcp reset',
    ]
