"""`host:port`, as brokers advertise it and operators write it. Pure."""

from __future__ import annotations


def host_and_port(endpoint: str) -> tuple[str, int]:
    """Return host and port of a valid endpoint; brackets around an IPv6 address are not part of the host."""
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port)


def endpoint_of(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
