"""Addresses of a cluster, and limits for its client: one value, made from `kafka.*` options, that pickles.

Option names, and most of the defaults, are Kafka's own. Options for features that this client lacks
(deserializers, groups) are refused by source/options.py, not here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.client.backoff import Patience
from pipeline.client.errors import InvalidClientOption
from pipeline.client.security import PLAIN, SECURITY_OPTIONS, ClientSecurity, client_security

Address = tuple[str, int]

BOOTSTRAP_MAX = 1_000
PORT_MAX = 65_535
_IPV6 = re.compile(r"\[([0-9A-Fa-f:.%]+)\]:(\d+)\Z")
_HOST = re.compile(r"([^\s:/\[\]]+):(\d+)\Z")


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Times are milliseconds, sizes bytes."""

    bootstrap: tuple[Address, ...]
    client_id: str = "springtide-pipeline"
    client_rack: str = ""
    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    """Longest wait for one answer, beyond what the request itself lets the broker wait."""
    retry_budget_ms: int = 120_000
    """Longest time without progress: as long as Spark's official source waits for a poll."""
    unknown_topic_budget_ms: int = 10_000
    """The same while the cluster says that the topic does not exist: longer than metadata needs to reach all
    brokers."""
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 16 * 1024 * 1024
    max_partition_fetch_bytes: int = 4 * 1024 * 1024
    """Larger than Kafka's 1 MiB: decoding is vectorised over what one answer holds."""
    answer_max_bytes: int = 128 * 1024 * 1024
    """A claim of a longer answer ends the connection. Room for one batch beyond every other limit."""
    security: ClientSecurity = PLAIN

    def patience(self, budget_ms: int | None = None) -> Patience:
        """Return that of one operation. budget_ms: instead of the retry budget."""
        budget_ms = self.retry_budget_ms if budget_ms is None else budget_ms
        return Patience(budget_ms, self.retry_backoff_ms, self.retry_backoff_max_ms)


_NUMBERS = {
    "request.timeout.ms": "request_timeout_ms",
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
    "fetch.max.wait.ms": "fetch_max_wait_ms",
    "fetch.max.bytes": "fetch_max_bytes",
    "max.partition.fetch.bytes": "max_partition_fetch_bytes",
}
_TEXTS = {"client.id": "client_id", "client.rack": "client_rack"}
CLIENT_OPTIONS = ("bootstrap.servers", *SECURITY_OPTIONS, *_NUMBERS, *_TEXTS)
"""Every name that means something here, without its prefix."""
CLIENT_PREFIX = "kafka."
"""What the names begin with as Spark's users write them."""


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """Return `host:port,[v6]:port` as addresses, in order. Raise InvalidClientOption."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or len(parts) > BOOTSTRAP_MAX:
        raise InvalidClientOption(
            f"kafka.bootstrap.servers must name 1 to {BOOTSTRAP_MAX} brokers, not {text!r}"
        )
    addresses: list[Address] = []
    for part in parts:
        found = _IPV6.match(part) or _HOST.match(part)
        if found is None or not 0 < int(found[2]) <= PORT_MAX:
            raise InvalidClientOption(f"kafka.bootstrap.servers: {part!r} is no host:port")
        address = (found[1], int(found[2]))
        if address not in addresses:
            addresses.append(address)
    return tuple(addresses)


def client_config(options: Mapping[str, str], *, prefix: str = CLIENT_PREFIX) -> ClientConfig:
    """Return the config from options without their prefix, names in lower case. Unknown names are ignored,
    but for those of TLS and SASL. prefix: names in messages begin with it.

    Raises InvalidClientOption for a missing or bad value.
    """
    servers = options.get("bootstrap.servers", "")
    if not servers.strip():
        raise InvalidClientOption(
            f"Option '{prefix}bootstrap.servers' must be specified for configuring the Kafka connection"
        )
    values: dict[str, int | str] = {}
    for name, attribute in _NUMBERS.items():
        if name in options:
            values[attribute] = _positive(prefix + name, options[name])
    for name, attribute in _TEXTS.items():
        if name in options:
            values[attribute] = options[name]
    security = client_security(options, prefix=prefix)
    return ClientConfig(bootstrap=parse_bootstrap(servers), security=security, **values)  # type: ignore[arg-type]


def _positive(name: str, text: str) -> int:
    try:
        value = int(text.strip())
    except ValueError:
        value = 0
    if not 0 < value < 2**31:
        raise InvalidClientOption(f"{name} must be a whole number from 1 to 2147483647, not {text!r}")
    return value
