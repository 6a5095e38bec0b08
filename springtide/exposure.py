"""What other hosts can reach: an address off loopback without TLS needs the operator's decision.

An address is loopback if it is `localhost` or an IP address of the loopback network. Other names are not
resolved: they count as addresses that other hosts can reach.
"""

from __future__ import annotations

import ipaddress

INSECURE_NETWORK = "--insecure-network"
INSECURE_NETWORK_HELP = "let other hosts in without TLS: traffic is unencrypted and can be changed on the way"


def is_loopback(host: str) -> bool:
    """Return whether only this host can reach what is bound to the host's name or address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def insecure_network_refused(address: str, *, instead: str) -> str:
    """Return what an operator is told who has not decided. address: what would be bound. instead: how this
    process gets TLS."""
    return (
        f"{address} can be reached from other hosts, without TLS: all that is said there, tokens and "
        f"passwords too, can be read and changed on the way. {instead} (`springtide certificates create "
        f"DIRECTORY NAME...` makes certificates to begin with, docs/security.md), listen on loopback, or "
        f"accept it with {INSECURE_NETWORK}"
    )
