"""What the configuration says of tokens of an OpenID issuer."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from admin_api.http.tokens import Role
from controller.config import ConfigError, ControllerConfig
from controller.shell.clock import ControllerClock
from springtide.exposure import is_loopback
from springtide.tls import TlsFilesInvalid

if TYPE_CHECKING:
    from admin_api.http.oidc import OidcIssuer


def read_issuer(config: ControllerConfig, clock: ControllerClock) -> OidcIssuer | None:
    """Return the issuer, None if none is configured. Raise ConfigError."""
    given = (config.oidc_issuer, config.oidc_audience, config.oidc_jwks, config.oidc_roles)
    if not any(given):
        return None
    if not all(given):
        raise ConfigError(
            "--oidc-issuer, --oidc-audience, --oidc-jwks and --oidc-roles belong together: name all or none"
        )
    url = urlsplit(config.oidc_jwks)
    is_near = url.scheme == "http" and is_loopback(url.hostname or "")
    if "://" in config.oidc_jwks and url.scheme != "https" and not is_near:
        raise ConfigError(
            "--oidc-jwks must be https://... or a file: with keys that were changed on the way, any token "
            "would be taken"
        )
    from admin_api.http.oidc import (  # noqa: PLC0415 - memory that only tokens of issuers need
        OidcIssuer,
        OidcRules,
        fetch_jwks_from,
    )

    try:
        rules = OidcRules.of(
            issuer=config.oidc_issuer,
            audience=config.oidc_audience,
            name_claim=config.oidc_name_claim,
            role_claim=config.oidc_role_claim,
            roles=_roles(config.oidc_roles),
        )
        return OidcIssuer(rules, fetch_jwks_from(config.oidc_jwks, ca=config.oidc_ca or None), clock)
    except ValueError as error:
        raise ConfigError(f"--oidc-roles: {error}") from error
    except TlsFilesInvalid as error:
        raise ConfigError(f"--oidc-ca: {error}") from error


def _roles(text: str) -> dict[str, Role]:
    """VALUE=ROLE,... Raise ValueError."""
    found: dict[str, Role] = {}
    for pair in text.split(","):
        value, equals, role = pair.strip().rpartition("=")
        if not equals or not value or value in found:
            raise ValueError(f"{pair.strip()!r} is not VALUE=ROLE, each value once")
        found[value] = Role(role)
    return found
