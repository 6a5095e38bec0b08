"""The command line of every process that serves clients: `dataplane serve`, `coordinator serve`.

SIGTERM and SIGINT begin a controlled shutdown; a second one ends the process at once, which is as safe as
SIGKILL.
"""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import resource
import signal
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import trio

from springtide.exposure import (
    INSECURE_NETWORK,
    INSECURE_NETWORK_HELP,
    insecure_network_refused,
    is_loopback,
)
from springtide.interpreter import spare_the_loop
from springtide.log_lines import LOG_FORMATS, LOG_LEVELS
from springtide.node.config import ConfigKey, NodeConfig, read_properties, split_pair
from springtide.node.controller_session import RegistrationRefused, WentBack
from springtide.node.listeners import HostPort, ListenersSettings, metrics_listener, parse_listeners
from springtide.node.settings import NodeSettings
from springtide.secret_places import SecretExposed, check_secret_file
from springtide.service_manager import ServiceManager
from springtide.tls import TlsFilesInvalid, client_context
from springtide.version import VERSION

_log = logging.getLogger(__name__)

CONFIG_FILE_BYTES_MAX = 1024 * 1024
TOKEN_CHARS_MAX = 400
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""See mallopt(3)."""
KEPT_FREE_BYTES_MAX = 64 * 1024 * 1024
KEPT_BLOCK_BYTES_MAX = 32 * 1024 * 1024
"""Larger blocks go back to the kernel when they are freed."""
EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_STARTED = 3
"""The process never served: an address is taken, or its registration is refused. To start it again as it is
cures nothing."""


class CommandLineError(Exception):
    """The command line can't be used; the message says why and what to do."""


class ServingProcess(Protocol):
    async def run(self) -> object: ...

    async def shut_down(self) -> bool:
        """Leave in order; return False if something could not be kept. Cancel `run` afterwards."""


def add_serve(commands: Any, *, what: str, port: int, keys: Mapping[str, ConfigKey]) -> Any:
    """Add `serve` to the program's commands, with the options that all have, and return its parser. what: the
    process, "broker"."""
    serve = commands.add_parser(
        "serve",
        help=f"run a {what}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="configuration keys (--config, --config-file):\n"
        + "\n".join(f"  {name}={key.default}\n      {key.text}" for name, key in keys.items()),
    )
    serve.add_argument("--cluster", required=True, help="name of the cluster at the controller")
    serve.add_argument(
        f"--{what}-id", type=int, required=True, help=f"this {what}'s id, unique in the cluster"
    )
    serve.add_argument(
        "--listen", metavar="HOST:PORT", help=f"default: 127.0.0.1:{port}; several, or TLS: listeners below"
    )
    serve.add_argument("--advertise", metavar="HOST:PORT", help="what clients connect to, if not --listen")
    serve.set_defaults(default_port=port)
    serve.add_argument(INSECURE_NETWORK, action="store_true", help=INSECURE_NETWORK_HELP)
    serve.add_argument("--controllers", required=True, metavar="URL[,URL...]", help="all controllers")
    serve.add_argument(
        "--controller-token-file",
        metavar="FILE",
        help=f"the token of role broker that the controllers know this {what} by",
    )
    serve.add_argument(
        "--controller-ca",
        metavar="FILE",
        help="for https:// controllers: the CAs to trust, in PEM (default: public ones)",
    )
    serve.add_argument(
        "--controller-client-cert",
        metavar="FILE",
        help=f"this {what}'s certificate, for controllers with --client-ca",
    )
    serve.add_argument(
        "--controller-client-key", metavar="FILE", help="that certificate's key, not encrypted"
    )
    serve.add_argument("--rack", help="where it stands; replicas of a partition are spread over racks")
    serve.add_argument("--metrics-listen", metavar="HOST:PORT", help="/metrics, /healthz, /readyz")
    serve.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="may be repeated")
    serve.add_argument("--config-file", metavar="FILE", help="a server.properties; --config wins over it")
    serve.add_argument("--log-level", default="info", type=str.lower, choices=LOG_LEVELS)
    serve.add_argument("--log-format", default="text", choices=LOG_FORMATS, help="json: an object a line")
    return serve


def node_settings(arguments: argparse.Namespace, config: NodeConfig) -> dict[str, Any]:
    """Return the fields of NodeSettings as the command line and the configuration give them. Raise
    CommandLineError, NodeConfigError."""
    controllers = tuple(url.strip() for url in arguments.controllers.split(",") if url.strip())
    if not controllers or not all(url.startswith(("http://", "https://")) for url in controllers):
        raise CommandLineError("--controllers takes URLs, such as http://127.0.0.1:8080")
    if any("@" in urlsplit(url).netloc for url in controllers):
        raise CommandLineError("--controllers takes URLs without a password: use --controller-token-file")
    metrics = arguments.metrics_listen and HostPort(*_address(arguments.metrics_listen, "--metrics-listen"))
    listeners = _listeners(arguments, config)
    if not arguments.insecure_network:
        _check_exposure(listeners)
    return {
        "cluster": arguments.cluster,
        "listeners": listeners,
        "controllers": controllers,
        "controller_token": _token(arguments.controller_token_file),
        "controller_tls": _tls(arguments),
        "rack": (arguments.rack or "").strip() or None,
        "metrics": metrics_listener(config, metrics),
        "version": VERSION,
    }


def _listeners(arguments: argparse.Namespace, config: NodeConfig) -> ListenersSettings:
    named = parse_listeners(config)
    if named is not None:
        if arguments.listen is not None or arguments.advertise is not None:
            raise CommandLineError("name addresses in listeners and advertised.listeners, or by --listen")
        return named
    host, port = _address(arguments.listen or f"127.0.0.1:{arguments.default_port}", "--listen")
    advertised = None if arguments.advertise is None else _address(arguments.advertise, "--advertise")
    return ListenersSettings.one(host, port, advertised=advertised and HostPort(*advertised))


def _check_exposure(listeners: ListenersSettings) -> None:
    """Raise CommandLineError if other hosts can reach a listener without TLS."""
    for one in listeners.all:
        if one.tls is None and not is_loopback(one.bind.host):
            named = f"listener {one.name}" if one.name else "--listen"
            address = f"{named} {one.bind.host}:{one.bind.port} ({one.protocol})"
            raise CommandLineError(insecure_network_refused(address, instead="Give it a listener of SSL"))


def id_of(arguments: argparse.Namespace, what: str) -> int:
    """Return the process's id. Raise CommandLineError."""
    node_id: int = getattr(arguments, f"{what}_id")
    if node_id < 0:
        raise CommandLineError(f"--{what}-id is 0 or more")
    return node_id


def config_pairs(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the configuration's keys and values, those that win last. Raise CommandLineError or
    NodeConfigError."""
    pairs: list[tuple[str, str]] = []
    if arguments.config_file is not None:
        path = Path(arguments.config_file)
        try:
            if path.stat().st_size > CONFIG_FILE_BYTES_MAX:
                raise CommandLineError(f"{path} is too large for a configuration file")
            pairs += read_properties(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise CommandLineError(f"--config-file {path}: {error}") from error
    return pairs + [split_pair(text) for text in arguments.config]


def _token(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        check_secret_file(file)
        with Path(file).open(encoding="ascii") as opened:
            token = opened.read(TOKEN_CHARS_MAX + 1).strip()
    except (OSError, UnicodeDecodeError, SecretExposed) as error:
        raise CommandLineError(f"--controller-token-file {file}: {error}") from error
    if not token or len(token) > TOKEN_CHARS_MAX or len(token.split()) != 1:
        raise CommandLineError(f"--controller-token-file {file} must hold a token and nothing else")
    return token


def _tls(arguments: argparse.Namespace) -> ssl.SSLContext | None:
    ca, cert, key = (
        arguments.controller_ca,
        arguments.controller_client_cert,
        arguments.controller_client_key,
    )
    if ca is cert is key is None:
        return None
    try:
        return client_context(ca=ca, cert=cert, key=key)
    except TlsFilesInvalid as error:
        raise CommandLineError(
            f"--controller-ca, --controller-client-cert, --controller-client-key: {error}"
        ) from error


def _address(text: str, option: str) -> tuple[str, int]:
    """HOST:PORT, the host in brackets if it is an IPv6 address."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65_535:
        raise CommandLineError(f"{option} takes HOST:PORT, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


# The process


def raise_open_files_limit() -> int:
    """Raise this process's soft limit of open files to its hard one, as Java does, and return it.

    Each client is a socket, and each log of a broker keeps a file or two open. Shells start with 1,024, and a
    log that can't be opened takes its whole directory offline.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def favour_the_loop() -> None:
    """Spare the loop what can be spared (interpreter.py), and keep the memory of large requests for the next
    ones."""
    spare_the_loop()
    _keep_freed_memory()


def _keep_freed_memory() -> None:
    """Tell glibc to give less memory back: a block of a megabyte that the kernel gives anew is zeroed page by
    page, with a fault for each. Other C libraries have no mallopt, and are left alone."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, KEPT_BLOCK_BYTES_MAX)
        mallopt(M_TRIM_THRESHOLD, KEPT_FREE_BYTES_MAX)


async def run_until_signal(
    listen: Callable[[], Awaitable[ServingProcess]],
    settings: NodeSettings,
    service: ServiceManager,
    *,
    is_supervised: bool = False,
) -> int:
    """Run the process that `listen` starts until a signal comes, and return the exit code.

    is_supervised: a process of ours passes signals on. One signal then often comes twice, from it and from
    what ends a terminal's or a service's processes together, so that a second one says nothing new."""
    exit_code = EXIT_FAILED
    try:
        async with trio.open_nursery() as nursery:
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                process = await listen()
                nursery.start_soon(process.run)
                nursery.start_soon(service.keep_alive, trio.sleep)
                await anext(aiter(signals))
                service.stopping()
                # Within the receiver's block: a shutdown that has nothing to wait for may end before the task
                # that waits for a second signal has run at all.
                async with trio.open_nursery() as until_stopped:
                    until_stopped.start_soon(_outlive_others if is_supervised else _exit_on_second, signals)
                    exit_code = EXIT_OK if await process.shut_down() else EXIT_FAILED
                    until_stopped.cancel_scope.cancel()
                nursery.cancel_scope.cancel()
    except* WentBack as group:
        _log.error("process_ends cause=%s", first_of(group))
    except* (RegistrationRefused, TlsFilesInvalid) as group:
        exit_code = EXIT_NOT_STARTED
        _log.error("process_ends cause=%s", first_of(group))
    except* OSError as group:
        exit_code = EXIT_NOT_STARTED
        hint = "is another process running there?"
        bound = (*settings.listeners.all, settings.metrics)
        addresses = ",".join("{}:{}".format(*one.bind) for one in bound if one is not None)
        _log.error("can_not_listen address=%s cause=%s hint=%s", addresses, first_of(group), hint)
    return exit_code


async def _exit_on_second(signals: Any) -> None:
    async for number in signals:
        _log.warning(
            "second_signal signal=%s consequence=%s", signal.Signals(number).name, "no clean shutdown"
        )
        os._exit(128 + number)


async def _outlive_others(signals: Any) -> None:
    async for number in signals:
        _log.info("second_signal signal=%s consequence=%s", signal.Signals(number).name, "none")


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception that is no group itself."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
