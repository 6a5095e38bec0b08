"""Configuration of a controller process: flags > SPRINGTIDE_* environment > TOML file (--config) > defaults.

One table says everything about each option: its name, type, default and help. A name is the same everywhere,
spelt as its place wants it: `--broker-lease-ms`, `SPRINGTIDE_BROKER_LEASE_MS`, and in the file
`broker_lease_ms` or Kafka's dotted form `broker.lease.ms`. Where Kafka has the option, it has Kafka's name.

Nothing here reads the environment or the file system by itself except `load_config`, which is given both.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

from controller.core.options import ControllerOptions, PreflightLimits
from springtide.exposure import INSECURE_NETWORK_HELP, is_loopback
from springtide.log_lines import LOG_FORMATS, LOG_LEVELS
from springtide.secret_places import SecretExposed, check_secret_file, has_password

T = TypeVar("T", str, int, bool)

ENVIRONMENT_PREFIX: Final = "SPRINGTIDE_"
#: How much faster one machine's clock may run than another's.
CLOCK_DRIFT: Final = 0.05
#: A silent broker is noticed this long after its grace ended, at most; and a lease is tested at use.
CHECK_SLACK_MS: Final = 250


class ConfigError(Exception):
    """A setting can't be used; the message says which, where it came from, and what to do."""


@dataclass(frozen=True, slots=True)
class Option:
    """One setting. `kind`: str, int or bool."""

    name: str
    default: str | int | bool
    help: str
    minimum: int | None = None

    @property
    def kind(self) -> type:
        return type(self.default)

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + self.name.upper()


def _option(default: T, help: str, *, minimum: int | None = None) -> T:
    found: T = field(default=default, metadata={"help": help, "minimum": minimum})
    return found


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """Everything `controller serve` needs to know, checked. Each field is an option, with its default and its
    help; the default "" means that the value is derived from others."""

    listen: str = _option("127.0.0.1:8080", "address and port to serve HTTP on; port 0 picks a free one")
    advertise: str = _option(
        "",
        "URL under which brokers, operators and other controllers reach this one "
        "(default: http:// and --listen; https:// with --tls-cert)",
    )
    tls_cert: str = _option(
        "", "file with the certificate that clients verify, and those between it and its CA, in PEM"
    )
    tls_key: str = _option("", "file with that certificate's key, in PEM and not encrypted")
    client_ca: str = _option(
        "",
        "file with CAs, in PEM: every connection must show a certificate of theirs, also one that asks "
        "/healthz, /readyz or /metrics",
    )
    kafka_ca: str = _option(
        "", "file with CAs, in PEM, of brokers and coordinators whose inter-broker listeners have TLS"
    )
    kafka_client_cert: str = _option("", "file with the certificate to show there, in PEM")
    kafka_client_key: str = _option("", "file with that certificate's key, in PEM and not encrypted")
    hsts_s: int = _option(
        0,
        "with --tls-cert: have browsers use only https for this host name, on all of its ports, for this "
        "many seconds; 0: do not",
        minimum=0,
    )
    zookeeper: str = _option(
        "127.0.0.1:2181",
        "ZooKeeper servers: host:port,host:port; a path after them, as in Kafka's zookeeper.connect, "
        "is put before --zookeeper-root",
    )
    zookeeper_root: str = _option("/springtide", "path below which everything is kept in ZooKeeper")
    zookeeper_ca: str = _option(
        "",
        "file with CAs, in PEM: speak TLS to ZooKeeper, whose certificates must be of theirs and have the "
        "names in --zookeeper",
    )
    zookeeper_client_cert: str = _option("", "file with the certificate to show there, in PEM")
    zookeeper_client_key: str = _option("", "file with that certificate's key, in PEM and not encrypted")
    zookeeper_auth_file: str = _option(
        "",
        "who controllers are to ZooKeeper: lines of NAME:PASSWORD, the same for all of them; what they keep "
        "there is then closed to others; also in the environment variable SPRINGTIDE_ZOOKEEPER_AUTH",
    )
    zookeeper_session_timeout_ms: int = _option(
        4_000, "how long ZooKeeper waits for a silent controller before another can be elected", minimum=500
    )
    database_url: str = _option(
        "sqlite:///springtide-audit.db",
        "history, operations and plans: a SQLAlchemy URL (sqlite:///file or postgresql+psycopg://...); one "
        "with a password only in the environment variable SPRINGTIDE_DATABASE_URL or in --config",
    )
    audit_retention_days: int = _option(
        0,
        "remove audit rows that are older than this many whole days, and record the removal; 0 keeps them",
        minimum=0,
    )
    broker_heartbeat_interval_ms: int = _option(500, "how often a broker renews its lease", minimum=10)
    broker_lease_ms: int = _option(
        5_000, "how long a broker serves after it sent its last acknowledged heartbeat", minimum=30
    )
    broker_session_timeout_ms: int = _option(
        6_000,
        "the grace: how long a silent broker is waited for before it is fenced; must outlast the lease",
        minimum=40,
    )
    broker_stopped_alarm_ms: int = _option(
        ControllerOptions().stopped_alarm_ms,
        "how long a broker that was stopped in order may stay away before that is an alarm",
        minimum=0,
    )
    preflight_free_bytes_min: int = _option(
        PreflightLimits().free_bytes_min,
        "what must be free where a broker keeps its logs before it is let in",
        minimum=0,
    )
    preflight_flush_ms_max: int = _option(
        PreflightLimits().flush_ms_max,
        "how long a broker's disk may take to flush a small write (median of several) before it is let in",
        minimum=1,
    )
    preflight_clock_skew_ms_max: int = _option(
        PreflightLimits().clock_skew_ms_max,
        "how far a broker's clock may be from the controller's before it is let in",
        minimum=1,
    )
    auto_leader_rebalance_enable: bool = _option(True, "move leadership back to preferred replicas")
    tokens_file: str = _option(
        "",
        "who may ask for what: lines of NAME ROLE TOKEN, where ROLE is viewer, operator, admin or broker, "
        "and TOKEN may be sha256: and its digest, or cert: and a name in a certificate of --client-ca; also "
        "in the environment variable SPRINGTIDE_TOKENS",
    )
    oidc_issuer: str = _option(
        "", "OpenID issuer whose bearer tokens (JWTs) are taken, too, as they name it: https://idp.example"
    )
    oidc_audience: str = _option("", "audience that its tokens are for")
    oidc_jwks: str = _option("", "its keys: an https:// URL (the issuer's jwks_uri), or a file")
    oidc_ca: str = _option("", "file with CAs, in PEM, to trust for that URL (default: public ones)")
    oidc_name_claim: str = _option("sub", "claim with the holder's name, for the audit")
    oidc_role_claim: str = _option("roles", "claim with what the holder is: a list, or words")
    oidc_roles: str = _option(
        "", "VALUE=ROLE,...: which value of that claim gives which role; the highest counts"
    )
    allow_anonymous: bool = _option(
        False, "let every client that reaches a listener off loopback do everything, without tokens"
    )
    insecure_network: bool = _option(False, INSECURE_NETWORK_HELP)
    kafka_administration: bool = _option(
        False,
        "with tokens: let Kafka clients administer through a broker; their names are not checked",
    )
    read_only: bool = _option(False, "refuse operators' writes; brokers are served, and failovers continue")
    if_match_required: bool = _option(
        False, "change or delete what exists only for who names the version they saw"
    )
    webhook_hosts: str = _option(
        "", "HOST,*.DOMAIN,...: the only hosts that webhooks may name (default: any, also those inside)"
    )
    observer: bool = _option(False, "show clusters, but never stand for election")
    connections_max: int = _option(10_000, "open HTTP connections above which new ones get 503", minimum=10)
    keep_alive_s: int = _option(75, "how long an idle HTTP connection is kept", minimum=1)
    log_level: str = _option("info", ", ".join(LOG_LEVELS))
    log_format: str = _option("text", "text (key=value) or json (an object a line)")

    @property
    def listen_address(self) -> tuple[str, int]:
        return parse_address(self.listen)

    @property
    def zookeeper_hosts(self) -> str:
        return self.zookeeper.partition("/")[0]

    @property
    def zookeeper_path(self) -> str:
        """The root with the connect string's chroot before it."""
        chroot = self.zookeeper.partition("/")[2].strip("/")
        root = self.zookeeper_root.strip("/")
        return "/" + "/".join(part for part in (chroot, root) if part)

    @property
    def scheme(self) -> str:
        return "https" if self.tls_cert else "http"

    @property
    def allowed_webhook_hosts(self) -> tuple[str, ...]:
        return tuple(host.strip().lower() for host in self.webhook_hosts.split(",") if host.strip())

    @property
    def is_loopback_only(self) -> bool:
        return is_loopback(self.listen_address[0])

    def options(self) -> ControllerOptions:
        """The core's tunables."""
        return ControllerOptions(
            heartbeat_interval_ms=self.broker_heartbeat_interval_ms,
            lease_ms=self.broker_lease_ms,
            grace_ms=self.broker_session_timeout_ms,
            probe_after_ms=2 * self.broker_heartbeat_interval_ms,
            stopped_alarm_ms=self.broker_stopped_alarm_ms,
            auto_leader_rebalance=self.auto_leader_rebalance_enable,
            preflight=PreflightLimits(
                free_bytes_min=self.preflight_free_bytes_min,
                flush_ms_max=self.preflight_flush_ms_max,
                clock_skew_ms_max=self.preflight_clock_skew_ms_max,
            ),
        )


OPTIONS: Final = tuple(
    Option(name=found.name, default=cast("str | int | bool", found.default), **found.metadata)
    for found in fields(ControllerConfig)
)
_BY_NAME: Final = {option.name: option for option in OPTIONS}


def load_config(
    flags: Mapping[str, Any], environment: Mapping[str, str], *, file: Path | None = None
) -> ControllerConfig:
    """Merge the sources. `flags` holds only those that were given.

    Raises:
        ConfigError
    """
    values: dict[str, Any] = {option.name: option.default for option in OPTIONS}
    if file is None and environment.get(ENVIRONMENT_PREFIX + "CONFIG"):
        file = Path(environment[ENVIRONMENT_PREFIX + "CONFIG"])
    if file is not None:
        values.update(_read_file(file))
        if has_password(values["database_url"]):
            try:
                check_secret_file(file)
            except SecretExposed as error:
                raise ConfigError(str(error)) from error
    for option in OPTIONS:
        text = environment.get(option.variable)
        if text is not None:
            values[option.name] = _parse(option, text, where=f"the environment variable {option.variable}")
    if has_password(str(flags.get("database_url", ""))):
        raise ConfigError(
            "--database-url has a password in it, which every user of this host can read in the list of "
            "processes: give the URL in the environment variable SPRINGTIDE_DATABASE_URL, or in --config"
        )
    for name, value in flags.items():
        option = _BY_NAME[name]
        values[name] = _parse(option, value, where=f"the flag {option.flag}")
    config = ControllerConfig(**values)
    check_config(config)
    return config


def _read_file(path: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    values = {}
    for key, value in _flatten(document).items():
        option = _BY_NAME.get(key.replace(".", "_").replace("-", "_"))
        if option is None:
            known = ", ".join(sorted(_BY_NAME))
            raise ConfigError(f"{path} has an unknown setting {key!r}; known are: {known}")
        values[option.name] = _parse(option, value, where=f"{key!r} in {path}")
    return values


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`broker.lease.ms = 1` is a table in TOML, and one dotted name for Kafka."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            flat.update(_flatten(value, f"{name}."))
        else:
            flat[name] = value
    return flat


_BOOLEANS: Final = {"true": True, "yes": True, "1": True, "on": True} | {
    "false": False,
    "no": False,
    "0": False,
    "off": False,
}


def _parse(option: Option, value: object, *, where: str) -> str | int | bool:
    if isinstance(value, str) and option.kind is int:
        try:
            value = int(value.replace("_", ""))
        except ValueError:
            raise ConfigError(f"{where} must be a whole number, not {value!r}") from None
    if isinstance(value, str) and option.kind is bool:
        if value.lower() not in _BOOLEANS:
            raise ConfigError(f"{where} must be true or false, not {value!r}")
        value = _BOOLEANS[value.lower()]
    if type(value) is not option.kind:
        raise ConfigError(f"{where} must be of type {option.kind.__name__}, not {value!r}")
    assert isinstance(value, str | int | bool)
    if option.minimum is not None and isinstance(value, int) and value < option.minimum:
        raise ConfigError(f"{where} must be at least {option.minimum}, not {value}")
    return value


def parse_address(text: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port`. Raise ConfigError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535 or not host:
        raise ConfigError(f"{text!r} is not host:port, such as 127.0.0.1:8080 or [::1]:8080")
    return host.removeprefix("[").removesuffix("]"), int(port)


def check_config(config: ControllerConfig) -> None:
    """Check what no single setting can tell. Raise ConfigError."""
    parse_address(config.listen)
    for server in config.zookeeper_hosts.split(","):
        parse_address(server if ":" in server else f"{server}:2181")
    if config.advertise:
        url = urlsplit(config.advertise)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ConfigError(
                f"--advertise {config.advertise!r} is not a URL such as http://controller-1:8080"
            )
        if config.tls_cert and url.scheme != "https":
            raise ConfigError(
                f"--advertise {config.advertise!r} must be https://..., because --tls-cert is given"
            )
    if bool(config.tls_cert) != bool(config.tls_key):
        raise ConfigError("--tls-cert and --tls-key belong together: name both files or neither")
    if bool(config.zookeeper_client_cert) != bool(config.zookeeper_client_key):
        raise ConfigError(
            "--zookeeper-client-cert and --zookeeper-client-key belong together: name both files or neither"
        )
    if config.zookeeper_client_cert and not config.zookeeper_ca:
        raise ConfigError("--zookeeper-client-cert needs TLS: add --zookeeper-ca")
    if (config.client_ca or config.hsts_s) and not config.tls_cert:
        raise ConfigError("--client-ca and --hsts-s need TLS: add --tls-cert and --tls-key")
    for flag, value, known in (
        ("--log-level", config.log_level.lower(), LOG_LEVELS),
        ("--log-format", config.log_format, LOG_FORMATS),
    ):
        if value not in known:
            raise ConfigError(f"{flag} {value!r} is not one of {', '.join(known)}")
    if config.broker_lease_ms < 3 * config.broker_heartbeat_interval_ms:
        raise ConfigError(
            f"--broker-lease-ms {config.broker_lease_ms} must span three heartbeats "
            f"({3 * config.broker_heartbeat_interval_ms} ms): raise it, or lower "
            "--broker-heartbeat-interval-ms"
        )
    needed = grace_ms_min(config.broker_lease_ms)
    if config.broker_session_timeout_ms < needed:
        raise ConfigError(
            f"--broker-session-timeout-ms {config.broker_session_timeout_ms} must be at least {needed}: the "
            f"lease of {config.broker_lease_ms} ms, {CLOCK_DRIFT:.0%} for clocks that differ, and "
            f"{CHECK_SLACK_MS} ms; "
            "otherwise a broker is replaced before it has fallen silent"
        )
    needed = config.zookeeper_session_timeout_ms + 2 * config.broker_heartbeat_interval_ms
    if config.broker_session_timeout_ms < needed:
        raise ConfigError(
            f"--broker-session-timeout-ms {config.broker_session_timeout_ms} must be at least {needed}: the "
            f"ZooKeeper session timeout of {config.zookeeper_session_timeout_ms} ms and two heartbeats; "
            "otherwise a pause of the controller makes healthy brokers look silent"
        )


def grace_ms_min(lease_ms: int) -> int:
    """Return the shortest grace that a lease allows (docs/replication.md 2.9, leases)."""
    return round(lease_ms * (1 + CLOCK_DRIFT)) + CHECK_SLACK_MS
