"""`dataplane serve | format | dump-log`: parse, build, run. The composition root of a broker.

SIGTERM and SIGINT begin a controlled shutdown; a second one ends the process at once, which is as safe as
SIGKILL: the next start recovers, and tells the controller what it can prove.
"""

from __future__ import annotations

import argparse
import base64
import gc
import importlib.metadata
import json
import logging
import os
import random
import resource
import signal
import ssl
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from controller.contract.lag_report import ReplicaProblem
from dataplane.broker import BrokerSettings, Ports, StorageBroker, listen
from dataplane.core.log_port import LogError
from dataplane.shell.config import (
    BROKER_KEYS,
    CONFIG_FILE_BYTES_MAX,
    BrokerConfig,
    BrokerConfigError,
    parse_config,
    read_properties,
    split_pair,
)
from dataplane.shell.data_directory import read_seen
from dataplane.shell.log_loading import load_logs
from dataplane.storage.disk import PosixDisk
from dataplane.storage.dump import dump_segment
from dataplane.storage.log_dir import LogDir, open_log_dir
from dataplane.storage.log_dir_identity import LogDirRefused
from springtide.log_lines import LOG_FORMATS, LOG_LEVELS, configure_logging
from springtide.node.controller_client import Seen
from springtide.node.controller_session import RegistrationRefused, WentBack
from springtide.tls import TlsFilesInvalid, client_context

_log = logging.getLogger("dataplane")

DEFAULT_PORT = 9092
TOKEN_CHARS_MAX = 400
BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"
GC_ALLOCATIONS = 20_000
GC_MIDDLE_EVERY = 20
GC_FULL_EVERY = 100
EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2


class CommandLineError(Exception):
    """The command line can't be used; the message says why and what to do."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    arguments = parser.parse_args(argv)
    try:
        match arguments.command:
            case "serve":
                return _serve(arguments)
            case "format":
                return _format(arguments)
            case _:
                return _dump_log(arguments)
    except (CommandLineError, BrokerConfigError) as error:
        print(f"dataplane: {error}", file=sys.stderr)
        return EXIT_USAGE
    except BrokenPipeError:  # `dump-log | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dataplane", description="A Springtide storage server.")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser(
        "serve",
        help="run a broker",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="configuration keys (--config, --config-file):\n"
        + "\n".join(f"  {name}={key.default}\n      {key.text}" for name, key in BROKER_KEYS.items()),
    )
    serve.add_argument("--cluster", required=True, help="name of the cluster at the controller")
    serve.add_argument("--broker-id", type=int, required=True, help="this broker's id, unique in the cluster")
    serve.add_argument("--listen", default=f"127.0.0.1:{DEFAULT_PORT}", metavar="HOST:PORT")
    serve.add_argument("--advertise", metavar="HOST:PORT", help="what clients connect to, if not --listen")
    serve.add_argument("--controllers", required=True, metavar="URL[,URL...]", help="all controllers")
    serve.add_argument(
        "--controller-token-file",
        metavar="FILE",
        help="the token of role broker that the controllers know this broker by",
    )
    serve.add_argument(
        "--controller-ca",
        metavar="FILE",
        help="for https:// controllers: the CAs to trust, in PEM (default: public ones)",
    )
    serve.add_argument(
        "--controller-client-cert",
        metavar="FILE",
        help="this broker's certificate, for controllers with --client-ca",
    )
    serve.add_argument(
        "--controller-client-key", metavar="FILE", help="that certificate's key, not encrypted"
    )
    serve.add_argument("--data-dir", required=True, metavar="DIR", help="this broker's own directory")
    serve.add_argument("--rack", help="where it stands; replicas of a partition are spread over racks")
    serve.add_argument("--metrics-listen", metavar="HOST:PORT", help="/metrics, /healthz, /readyz")
    serve.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="may be repeated")
    serve.add_argument("--config-file", metavar="FILE", help="a server.properties; --config wins over it")
    serve.add_argument("--log-level", default="info", type=str.lower, choices=LOG_LEVELS)
    serve.add_argument("--log-format", default="text", choices=LOG_FORMATS, help="json: an object a line")
    format_ = commands.add_parser("format", help="give a data directory its identity before the first start")
    format_.add_argument("--data-dir", required=True, metavar="DIR")
    format_.add_argument("--broker-id", type=int, required=True)
    dump = commands.add_parser("dump-log", help="print a segment or a divergent copy, a JSON object a batch")
    dump.add_argument("file", metavar="FILE", help="a .log or .batches file")
    dump.add_argument("--records", action="store_true", help="the records too")
    return parser


# serve


def _serve(arguments: argparse.Namespace) -> int:
    configure_logging(arguments.log_level, arguments.log_format)
    settings = _settings(arguments)
    _log.info("open_files_limit_raised files=%d", raise_open_files_limit())
    ports = Ports()
    data_dir = str(Path(arguments.data_dir).absolute())
    try:
        opened = open_broker(settings, ports, data_dir=data_dir, boot_id=_boot_id())
    except LogDirRefused as error:
        hint = "choose another --data-dir, or see what is in it"
        _log.error("log_directory_refused path=%s cause=%s hint=%s", data_dir, error, hint)
        return EXIT_FAILED
    except (LogError, OSError) as error:
        _log.error("log_directory_unusable path=%s cause=%s", data_dir, error)
        return EXIT_FAILED
    _calm_the_collector()
    return trio.run(_run_broker, opened)


@dataclass(frozen=True, slots=True)
class OpenedBroker:
    """A broker whose directory is locked and whose logs are recovered, before its loop runs."""

    settings: BrokerSettings
    ports: Ports
    log_dir: LogDir
    problems: Sequence[ReplicaProblem]
    seen: Seen

    async def listen(self) -> StorageBroker:
        """Bind the listeners and put the broker together. Raises OSError."""
        return await listen(self.settings, self.ports, self.log_dir, self.problems, self.seen)


def open_broker(settings: BrokerSettings, ports: Ports, *, data_dir: str, boot_id: str) -> OpenedBroker:
    """Lock the directory and recover the logs. Blocks on the disk.

    Raises LogDirRefused, LogError, OSError."""
    log_dir = open_log_dir(
        ports.disk,
        data_dir,
        broker_id=settings.broker_id,
        new_dir_id=_new_dir_id(ports.rng),
        boot_id=boot_id,
        options=settings.config.topic_settings({}).log,
    )
    _log.info("log_directory_opened path=%s last_shutdown=%s", data_dir, log_dir.claim.last_shutdown.value)
    problems = load_logs(log_dir, wall_ms=ports.clock.wall_ms)
    _log.info("logs_open logs=%d", len(log_dir.logs))
    seen = read_seen(ports.disk, data_dir)
    return OpenedBroker(settings, ports, log_dir, problems, seen)


def raise_open_files_limit() -> int:
    """Raise this process's soft limit of open files to its hard one, as Java does, and return it.

    Each log keeps a file or two open, and each client a socket. Shells start with 1,024, and a log that can't
    be opened takes its whole directory offline.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _calm_the_collector() -> None:
    """What was loaded until now stays; and requests leave no cycles, so full collections may be rare. Each
    one stops the loop."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_ALLOCATIONS, GC_MIDDLE_EVERY, GC_FULL_EVERY)


async def _run_broker(opened: OpenedBroker) -> int:
    exit_code = EXIT_FAILED
    try:
        async with trio.open_nursery() as nursery:
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                broker = await opened.listen()
                nursery.start_soon(broker.run)
                await anext(aiter(signals))
                nursery.start_soon(_exit_on_second, signals)
                exit_code = EXIT_OK if await broker.shut_down() else EXIT_FAILED
                nursery.cancel_scope.cancel()
    except* (RegistrationRefused, LogDirRefused, WentBack) as group:
        _log.error("broker_ends cause=%s", _first(group))
    except* OSError as group:
        address = f"{opened.settings.listen_host}:{opened.settings.listen_port}"
        hint = "is another broker running there?"
        _log.error("can_not_listen address=%s cause=%s hint=%s", address, _first(group), hint)
    except* LogError as group:
        _log.error("broker_ends cause=%s hint=%s", _first(group), "restart it on a working disk")
    return exit_code


async def _exit_on_second(signals: Any) -> None:
    async for number in signals:
        _log.warning(
            "second_signal signal=%s consequence=%s", signal.Signals(number).name, "no clean shutdown"
        )
        os._exit(128 + number)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _settings(arguments: argparse.Namespace) -> BrokerSettings:
    if arguments.broker_id < 0:
        raise CommandLineError("--broker-id is 0 or more")
    controllers = tuple(url.strip() for url in arguments.controllers.split(",") if url.strip())
    if not controllers or not all(url.startswith(("http://", "https://")) for url in controllers):
        raise CommandLineError("--controllers takes URLs, such as http://127.0.0.1:8080")
    listen = _address(arguments.listen, "--listen")
    advertise = (None, None) if arguments.advertise is None else _address(arguments.advertise, "--advertise")
    metrics = (
        (None, 0)
        if arguments.metrics_listen is None
        else _address(arguments.metrics_listen, "--metrics-listen")
    )
    return BrokerSettings(
        cluster=arguments.cluster,
        broker_id=arguments.broker_id,
        listen_host=listen[0],
        listen_port=listen[1],
        advertise_host=advertise[0],
        advertise_port=advertise[1],
        controllers=controllers,
        controller_token=_token(arguments.controller_token_file),
        controller_tls=_tls(arguments),
        rack=arguments.rack,
        metrics_host=metrics[0],
        metrics_port=metrics[1],
        config=_config(arguments),
        version=_version(),
    )


def _token(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        with Path(file).open(encoding="ascii") as opened:
            token = opened.read(TOKEN_CHARS_MAX + 1).strip()
    except (OSError, UnicodeDecodeError) as error:
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


def _config(arguments: argparse.Namespace) -> BrokerConfig:
    pairs: list[tuple[str, str]] = []
    if arguments.config_file is not None:
        path = Path(arguments.config_file)
        try:
            if path.stat().st_size > CONFIG_FILE_BYTES_MAX:
                raise CommandLineError(f"{path} is too large for a configuration file")
            pairs += read_properties(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise CommandLineError(f"--config-file {path}: {error}") from error
    pairs += [split_pair(text) for text in arguments.config]
    return parse_config(pairs)


def _address(text: str, option: str) -> tuple[str, int]:
    """HOST:PORT, the host in brackets if it is an IPv6 address."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65_535:
        raise CommandLineError(f"{option} takes HOST:PORT, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _version() -> str:
    try:
        return importlib.metadata.version("springtide")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _boot_id() -> str:
    """Changes with each start of the kernel; "" where there is none, which proves nothing."""
    try:
        return Path(BOOT_ID_FILE).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _new_dir_id(rng: random.Random) -> str:
    return base64.urlsafe_b64encode(rng.randbytes(16)).decode("ascii").rstrip("=")


# format, dump-log


def _format(arguments: argparse.Namespace) -> int:
    try:
        log_dir = open_log_dir(
            PosixDisk(),
            str(Path(arguments.data_dir).absolute()),
            broker_id=arguments.broker_id,
            new_dir_id=_new_dir_id(random.SystemRandom()),
            boot_id=_boot_id(),
        )
    except (LogDirRefused, LogError) as error:
        print(f"dataplane: {error}", file=sys.stderr)
        return EXIT_FAILED
    log_dir.abandon()
    meta = log_dir.claim.meta
    print(f"{arguments.data_dir}: directory {meta.dir_id} of broker {meta.broker_id}")
    return EXIT_OK


def _dump_log(arguments: argparse.Namespace) -> int:
    path = Path(arguments.file)
    if not path.is_file():
        raise CommandLineError(f"{path} is no file")
    try:
        for entry in dump_segment(PosixDisk().open(str(path)), with_records=arguments.records):
            print(json.dumps(entry, default=_printable))
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        print(f"dataplane: {path}: {error}", file=sys.stderr)
        return EXIT_FAILED
    return EXIT_OK


def _printable(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", errors="backslashreplace")
    return str(value)


if __name__ == "__main__":
    sys.exit(main())
