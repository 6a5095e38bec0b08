"""What the configuration says of ZooKeeper, with its files read, and `controller secure-zookeeper`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kazoo.exceptions import KazooException, NoAuthError, NoNodeError

from controller.config import ConfigError, ControllerConfig
from controller.shell.kazoo_access import (
    LINE_END,
    IdentitiesInvalid,
    ZooKeeperAccess,
    ZooKeeperTls,
    parse_identities,
)
from controller.shell.kazoo_meta import KazooMeta
from controller.shell.znode_acls import set_acls
from springtide.secret_places import SecretExposed, check_secret_file
from springtide.tls import TlsFilesInvalid

#: Not a flag and not in the file: every user of the host can read a process's arguments.
AUTH_VARIABLE: Final = "SPRINGTIDE_ZOOKEEPER_AUTH"
AUTH_BYTES_MAX: Final = 16 * 1024
CONNECT_TIMEOUT_S: Final = 15
SHOWN_MAX: Final = 10


def read_access(config: ControllerConfig, environment: Mapping[str, str]) -> ZooKeeperAccess:
    """Return how to get into ZooKeeper. Raise ConfigError, also for files that can't be used."""
    access = ZooKeeperAccess(_tls(config), _identities(config, environment))
    if access.identities and config.zookeeper_path == "/":
        raise ConfigError(
            "--zookeeper-root / belongs to all clients of that ZooKeeper: with --zookeeper-auth-file, keep "
            "everything below a path such as /springtide"
        )
    return access


def _tls(config: ControllerConfig) -> ZooKeeperTls | None:
    if not config.zookeeper_ca:
        return None
    tls = ZooKeeperTls(
        config.zookeeper_ca, config.zookeeper_client_cert or None, config.zookeeper_client_key or None
    )
    try:
        tls.context()
    except TlsFilesInvalid as error:
        raise ConfigError(
            f"--zookeeper-ca, --zookeeper-client-cert, --zookeeper-client-key: {error}"
        ) from error
    return tls


def _identities(config: ControllerConfig, environment: Mapping[str, str]) -> tuple[str, ...]:
    file, variable = config.zookeeper_auth_file, environment.get(AUTH_VARIABLE)
    if file and variable is not None:
        raise ConfigError(f"--zookeeper-auth-file and {AUTH_VARIABLE} are both given: use one of them")
    try:
        if file:
            check_secret_file(file)
            with Path(file).open(encoding="ascii") as opened:
                return parse_identities(opened.read(AUTH_BYTES_MAX))
        return () if variable is None else parse_identities(variable.replace(LINE_END, "\n"))
    except (OSError, UnicodeDecodeError, SecretExposed, IdentitiesInvalid) as error:
        raise ConfigError(f"{f'--zookeeper-auth-file {file}' if file else AUTH_VARIABLE}: {error}") from error


def open_meta(config: ControllerConfig, access: ZooKeeperAccess) -> KazooMeta:
    return KazooMeta(
        hosts=config.zookeeper_hosts,
        root=config.zookeeper_path,
        session_timeout_ms=config.zookeeper_session_timeout_ms,
        access=access,
    )


def secure_zookeeper(config: ControllerConfig, access: ZooKeeperAccess, *, opens: bool) -> int:
    """Close all that controllers keep in ZooKeeper to other clients, or open it again; return the exit
    status. Raise ConfigError."""
    if not access.identities:
        raise ConfigError("secure-zookeeper needs the controllers' identity: name --zookeeper-auth-file")
    acl = ZooKeeperAccess().acl if opens else access.acl
    client = access.client(
        hosts=config.zookeeper_hosts, session_timeout_ms=config.zookeeper_session_timeout_ms
    )
    try:
        client.start(timeout=CONNECT_TIMEOUT_S)
        done = set_acls(client, config.zookeeper_path, acl)
    except client.handler.timeout_exception:
        print(f"controller: ZooKeeper at {config.zookeeper} did not answer", file=sys.stderr)
        return 1
    except NoNodeError:
        print(f"controller: ZooKeeper has no {config.zookeeper_path} yet", file=sys.stderr)
        return 1
    except NoAuthError:
        print(f"controller: the ACL of {config.zookeeper_path} lets no identity of ours in", file=sys.stderr)
        return 1
    except KazooException as error:
        print(f"controller: ZooKeeper went away ({type(error).__name__}): run it again", file=sys.stderr)
        return 1
    finally:
        client.stop()
        client.close()
    state = "open to every client" if opens else "closed to others"
    print(f"{config.zookeeper_path}: {done.changed} znodes are now {state}, {done.unchanged} were so before")
    for path in done.refused[:SHOWN_MAX]:
        print(f"controller: {path} has an ACL that does not let us change it", file=sys.stderr)
    return 1 if done.refused else 0
