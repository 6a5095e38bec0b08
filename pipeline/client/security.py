"""The security of a client's connections: TLS, and its login, from options under Kafka's names. Pure.

CAs, certificates and keys are PEM files (KIP-651). No secret is in a repr, and messages name options without
their values. An option of TLS or SASL that is not known here is refused, because a connection that is less
safe than asked for must not be made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from pipeline.client.errors import InvalidClientOption
from springtide.security.sasl.clients import is_bearer_token
from springtide.security.sasl.exchange import Mechanism

SECURITY_OPTIONS: Final = (
    "security.protocol",
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.endpoint.identification.algorithm",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "sasl.oauthbearer.token",
    "sasl.oauthbearer.token.endpoint.url",
)
JAAS_OPTION: Final = "sasl.jaas.config"
"""Only for files: its name does not tell Spark, which shows options, that its value has a password."""
SECRET_OPTIONS: Final = ("sasl.password", "sasl.oauthbearer.token", JAAS_OPTION)
_FAMILIES: Final = ("security.", "ssl.", "sasl.")
_JAAS_VALUE: Final = re.compile(
    r"""\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;"']+))"""
)


class SecurityProtocol(StrEnum):
    """Kafka's `security.protocol`."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """truststore: a file of CAs; None trusts those of the machine. keystore: a file with the client's
    certificate and key. verifies_names: whether a broker must have the name that it is reached by."""

    truststore: str | None = None
    keystore: str | None = None
    verifies_names: bool = True


@dataclass(frozen=True, slots=True)
class PasswordLogin:
    """A login by PLAIN or SCRAM."""

    mechanism: Mechanism
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """A login by OAUTHBEARER, with a token, or with the one that a file has at the time of the login."""

    token: str = field(default="", repr=False)
    file: str = ""
    mechanism: Mechanism = Mechanism.OAUTHBEARER


Login = PasswordLogin | TokenLogin


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """tls: None speaks in the clear. login: None authenticates by the certificate, or not at all. prefix:
    what the user's options begin with; messages name them so."""

    tls: TlsOptions | None = None
    login: Login | None = None
    prefix: str = ""

    def option(self, name: str) -> str:
        return self.prefix + name

    @property
    def principal(self) -> str:
        """Return by what name the cluster knows this client, as far as the options tell."""
        match self.login:
            case PasswordLogin(username=username):
                return f"User:{username}"
            case TokenLogin():
                return "the user of its token"
            case None if self.tls is not None and self.tls.keystore is not None:
                return "the subject of its certificate"
        return "User:ANONYMOUS"


PLAIN: Final = ClientSecurity()


class _Given(NamedTuple):
    options: Mapping[str, str]
    prefix: str

    def get(self, name: str) -> str:
        return self.options.get(name, "").strip()

    def refusal(self, name: str, why: str) -> InvalidClientOption:
        return InvalidClientOption(f"{self.prefix}{name} {why}")

    def one_of(self, name: str, known: tuple[str, ...], default: str, why: str = "") -> str:
        """Return the value as it is spelt in `known`; the user may spell it in any case."""
        text = self.options.get(name, default).strip()
        found = next((one for one in known if one.lower() == text.lower()), None)
        if found is None:
            listed = " or ".join(repr(str(one)) for one in known)
            raise self.refusal(name, f"must be {listed}, not {text!r}{why}")
        return found


def client_security(options: Mapping[str, str], *, prefix: str = "") -> ClientSecurity:
    """Return what the options say; those that are not about security are ignored. prefix: the user's options
    begin with it, and these don't. Raises InvalidClientOption."""
    given = _Given(options, prefix)
    named = [name for name in options if name.startswith(_FAMILIES)]
    for name in named:
        if name not in (*SECURITY_OPTIONS, JAAS_OPTION):
            alike = (one for one in SECURITY_OPTIONS if one.startswith(f"{name.partition('.')[0]}."))
            raise given.refusal(
                name,
                f"is not known here: there are {', '.join(alike)}. Files are PEM, keys without a passphrase",
            )
    if named and "security.protocol" not in options:
        raise given.refusal("security.protocol", f"is needed: without it {prefix}{named[0]} has no effect")
    protocol = given.one_of("security.protocol", tuple(SecurityProtocol), SecurityProtocol.PLAINTEXT)
    has_tls = protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)
    has_login = protocol in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
    return ClientSecurity(
        tls=_tls(given) if has_tls else None, login=_login(given) if has_login else None, prefix=prefix
    )


def _tls(given: _Given) -> TlsOptions:
    for name in ("ssl.truststore.type", "ssl.keystore.type"):
        given.one_of(name, ("PEM",), "PEM", ": `openssl pkcs12 -in store.p12 -nodes` makes PEM of it")
    names = given.one_of("ssl.endpoint.identification.algorithm", ("https", ""), "https")
    return TlsOptions(
        given.get("ssl.truststore.location") or None,
        given.get("ssl.keystore.location") or None,
        verifies_names=names == "https",
    )


def _login(given: _Given) -> Login:
    mechanism = Mechanism(given.one_of("sasl.mechanism", tuple(Mechanism), ""))
    return _token_login(given) if mechanism is Mechanism.OAUTHBEARER else _password_login(given, mechanism)


def _password_login(given: _Given, mechanism: Mechanism) -> PasswordLogin:
    username, password = given.options.get("sasl.username", ""), given.options.get("sasl.password", "")
    jaas = given.options.get(JAAS_OPTION)
    if jaas is not None:
        if username or password:
            raise given.refusal(
                JAAS_OPTION, "stands beside sasl.username and sasl.password: give one of the two"
            )
        found = {name: quoted or single or bare for name, quoted, single, bare in _JAAS_VALUE.findall(jaas)}
        username, password = (
            re.sub(r"\\(.)", r"\1", found.get(name, "")) for name in ("username", "password")
        )
    for name, text in (("sasl.username", username), ("sasl.password", password)):
        if not text or not text.isprintable():
            raise given.refusal(name, "is needed, of printable characters")
    return PasswordLogin(mechanism, username, password)


def _token_login(given: _Given) -> TokenLogin:
    token, url = given.get("sasl.oauthbearer.token"), given.get("sasl.oauthbearer.token.endpoint.url")
    if bool(token) == bool(url):
        raise given.refusal(
            "sasl.oauthbearer.token", "is needed, or sasl.oauthbearer.token.endpoint.url, and not both"
        )
    if token:
        if not is_bearer_token(token):
            raise given.refusal("sasl.oauthbearer.token", "is not a bearer token")
        return TokenLogin(token)
    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc or not parts.path:
        raise given.refusal(
            "sasl.oauthbearer.token.endpoint.url",
            "must be file:///PATH: a file that has the token, and a new one before the old one ends",
        )
    return TokenLogin(file=unquote(parts.path))
