"""Where a controller listens and what it tells others of it: who may reach it, and by which URL."""

from __future__ import annotations

import ipaddress

from controller.config import ConfigError, ControllerConfig
from springtide.exposure import insecure_network_refused


def check_access(config: ControllerConfig, *, has_tokens: bool) -> None:
    """Raise ConfigError if other hosts could administer clusters, or read along, without the operator's
    consent."""
    if config.is_loopback_only:
        return
    if not (has_tokens or config.allow_anonymous):
        raise ConfigError(
            f"--listen {config.listen} can be reached from other hosts, and there are no tokens: any client "
            "could administer every cluster. Name them with --tokens-file FILE (lines of NAME ROLE TOKEN), "
            "listen on loopback, or accept it with --allow-anonymous"
        )
    if not (config.tls_cert or config.insecure_network):
        raise ConfigError(
            insecure_network_refused(f"--listen {config.listen}", instead="Add --tls-cert and --tls-key")
        )


def advertised_url(config: ControllerConfig, *, bound_port: int) -> str:
    """Return the URL that others are told. `check_advertisable` refuses a wildcard address."""
    if config.advertise:
        return config.advertise.rstrip("/")
    host = config.listen_address[0]
    spelled = f"[{host}]" if ":" in host else host
    return f"{config.scheme}://{spelled}:{bound_port}"


def check_advertisable(config: ControllerConfig) -> None:
    """Raise ConfigError if others could not reach what would be advertised."""
    host = config.listen_address[0]
    try:
        is_wildcard = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        is_wildcard = False
    if is_wildcard and not config.advertise:
        raise ConfigError(
            f"--listen {config.listen} listens on every address, so others can't know which to use: add "
            f"--advertise {config.scheme}://NAME:PORT with a name that brokers and operators can reach"
        )
