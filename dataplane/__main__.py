"""`dataplane serve | format | dump-log`: parse, build, run. The composition root of a broker, and with
`--workers` above 1 of the process above its workers (supervisor.py).

SIGTERM and SIGINT begin a controlled shutdown; a second one ends the process at once, which is as safe as
SIGKILL: the next start recovers, and tells the controller what it can prove.
"""

from __future__ import annotations

import argparse
import base64
import json
import logging
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import trio

from dataplane.broker import BrokerSettings, Ports, StorageBroker, listen
from dataplane.core.log_port import LogError
from dataplane.core.titles import NewerFormat
from dataplane.core.workers import WorkersRefused, check_folders, worker_directory
from dataplane.shell.compaction_process import CompactionProcess
from dataplane.shell.config import BROKER_KEYS, OBSOLETE_VALIDATION, BrokerConfig
from dataplane.shell.data_directory import read_seen
from dataplane.shell.log_loading import load_logs
from dataplane.storage.disk import PosixDisk, mkdir_durably
from dataplane.storage.dump import dump_segment
from dataplane.storage.log_dir import LogDir, open_log_dir
from dataplane.storage.log_dir_identity import LogDirRefused
from dataplane.storage.tail_cache import TailBudget
from dataplane.storage.worker_folders import workers_with_data
from dataplane.supervisor import EXIT_DIRECTORY_REFUSED, Supervisor, end_with_supervisor
from dataplane.worker_settings import check_settings, settings_of_worker
from springtide.contract.lag_report import ReplicaProblem
from springtide.log_lines import configure_logging, ids_in_log
from springtide.native.record_walk import BadNativeChoice, Implementation, choose_implementation, use
from springtide.node.command_line import (
    EXIT_FAILED,
    EXIT_OK,
    EXIT_USAGE,
    CommandLineError,
    add_serve,
    config_pairs,
    favour_the_loop,
    first_of,
    id_of,
    node_settings,
    raise_open_files_limit,
    run_until_signal,
)
from springtide.node.config import NodeConfigError
from springtide.node.controller_client import Seen
from springtide.service_manager import ServiceManager

_log = logging.getLogger("dataplane")

DEFAULT_PORT = 9092
BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    arguments = parser.parse_args(argv)
    try:
        match arguments.command:
            case "serve":
                with ids_in_log(worker=_worker_in_log(arguments)):
                    return _serve(arguments)
            case "format":
                return _format(arguments)
            case _:
                return _dump_log(arguments)
    except (BadNativeChoice, CommandLineError, NodeConfigError, WorkersRefused) as error:
        print(f"dataplane: {error}", file=sys.stderr)
        return EXIT_USAGE
    except BrokenPipeError:  # `dump-log | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dataplane", description="A Springtide storage server.")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = add_serve(commands, what="broker", port=DEFAULT_PORT, keys=BROKER_KEYS)
    serve.add_argument("--data-dir", required=True, metavar="DIR", help="this broker's own directory")
    serve.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="processes of this broker, one for each core to use; worker k has each port + k, and the folder "
        "worker-k in the directory (default: 1)",
    )
    serve.add_argument("--worker", type=int, help=argparse.SUPPRESS)  # Which of them this process is.
    format_ = commands.add_parser("format", help="give a data directory its identity before the first start")
    format_.add_argument("--data-dir", required=True, metavar="DIR")
    format_.add_argument("--broker-id", type=int, required=True)
    dump = commands.add_parser("dump-log", help="print a segment or a divergent copy, a JSON object a batch")
    dump.add_argument("file", metavar="FILE", help="a .log or .batches file")
    dump.add_argument("--records", action="store_true", help="the records too")
    return parser


# serve


def _worker_in_log(arguments: argparse.Namespace) -> str | None:
    return None if arguments.worker is None else f"{arguments.worker}/{arguments.workers}"


def _serve(arguments: argparse.Namespace) -> int:
    configure_logging(arguments.log_level, arguments.log_format)
    settings = _settings(arguments)
    native = choose_implementation(os.environ)
    data_dir = str(Path(arguments.data_dir).absolute())
    if arguments.worker is None:
        try:
            _prepare_directory(data_dir, arguments.workers)
        except OSError as error:
            _log.error("log_directory_unusable path=%s cause=%s", data_dir, error)
            return EXIT_DIRECTORY_REFUSED
        if arguments.workers > 1:
            # As this process was started: `-m` would let the working directory say what is imported.
            command = (sys.executable, *sys.orig_argv[1:])
            workers = [(*command, "--worker", str(number)) for number in range(arguments.workers)]
            return trio.run(Supervisor(workers, _service_manager()).run)
    else:
        end_with_supervisor()
        data_dir = worker_directory(data_dir, arguments.worker)
    return _serve_alone(settings, data_dir, native)


def _prepare_directory(data_dir: str, workers: int) -> None:
    """Check the folders of workers, and make the directory in which several make theirs. Raise
    WorkersRefused, OSError."""
    disk = PosixDisk()
    check_folders(data_dir, workers_with_data(disk, data_dir, workers), workers)
    if workers > 1:
        mkdir_durably(disk, data_dir)


def _serve_alone(settings: BrokerSettings, data_dir: str, native: Implementation) -> int:
    """Run the broker, or the worker, that is this process."""
    _log.info("open_files_limit_raised files=%d", raise_open_files_limit())
    use(native)
    _log.info("records_walked_by implementation=%s cause=%s", native.name, native.why)
    if OBSOLETE_VALIDATION in settings.config.values:
        hint = "leaders check each record of every batch: leave it out"
        _log.warning("configuration_without_effect key=%s hint=%s", OBSOLETE_VALIDATION, hint)
    ports = Ports(compaction=CompactionProcess(), service=_service_manager())
    try:
        opened = open_broker(settings, ports, data_dir=data_dir, boot_id=_boot_id())
    except NewerFormat as error:
        _log.error("log_directory_refused path=%s cause=%s", data_dir, error)
        return EXIT_DIRECTORY_REFUSED
    except LogDirRefused as error:
        hint = "choose another --data-dir, or see what is in it"
        _log.error("log_directory_refused path=%s cause=%s hint=%s", data_dir, error, hint)
        return EXIT_DIRECTORY_REFUSED
    except (LogError, OSError) as error:
        _log.error("log_directory_unusable path=%s cause=%s", data_dir, error)
        return EXIT_DIRECTORY_REFUSED
    favour_the_loop()
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

    Raises LogDirRefused, NewerFormat, LogError, OSError."""
    log_dir = open_log_dir(
        ports.disk,
        data_dir,
        broker_id=settings.broker_id,
        new_dir_id=_new_dir_id(ports.rng),
        boot_id=boot_id,
        options=settings.config.topic_settings({}).log,
        tail_budget=TailBudget(settings.tail_bytes_max),
    )
    _log.info("log_directory_opened path=%s last_shutdown=%s", data_dir, log_dir.claim.last_shutdown.value)
    if log_dir.claim.is_copy_suspected:
        _log.warning(
            "log_directory_written_over path=%s cause=%s consequence=%s",
            data_dir,
            "the files are not as this broker left them: an older copy was put over them, or they are of a "
            "release that made no fresh mark",
            "the last stop counts as a machine crash: this broker gives up its seats",
        )
    problems = load_logs(log_dir, wall_ms=ports.clock.wall_ms)
    _log.info("logs_open logs=%d", len(log_dir.logs))
    seen = read_seen(ports.disk, data_dir)
    return OpenedBroker(settings, ports, log_dir, problems, seen)


async def _run_broker(opened: OpenedBroker) -> int:
    exit_code = EXIT_FAILED
    try:
        is_supervised = opened.settings.worker_of is not None
        return await run_until_signal(
            opened.listen, opened.settings, opened.ports.service, is_supervised=is_supervised
        )
    except* LogDirRefused as group:
        exit_code = EXIT_DIRECTORY_REFUSED
        _log.error("process_ends cause=%s", first_of(group))
    except* LogError as group:
        _log.error("process_ends cause=%s hint=%s", first_of(group), "restart it on a working disk")
    return exit_code


def _settings(arguments: argparse.Namespace) -> BrokerSettings:
    """Return the settings of the broker, or of the worker that this process is. Raise WorkersRefused,
    CommandLineError, NodeConfigError."""
    config = BrokerConfig.parse(config_pairs(arguments))
    settings = BrokerSettings(
        broker_id=id_of(arguments, "broker"), config=config, **node_settings(arguments, config)
    )
    check_settings(settings, arguments.workers)
    if arguments.worker is None:
        return settings
    if not 0 <= arguments.worker < arguments.workers or arguments.workers == 1:
        raise CommandLineError("--worker is given by the process that --workers makes, not by hand")
    return settings_of_worker(settings, arguments.worker, arguments.workers)


def _service_manager() -> ServiceManager:
    return ServiceManager.of_environment(os.environ, pid=os.getpid())


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
    except (LogDirRefused, LogError, NewerFormat) as error:
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
