"""`coordinator serve`: parse, build, run. A coordinator has no disk: all that it knows it replays."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

import trio

from coordinator.config import COORDINATOR_KEYS, CoordinatorConfig
from coordinator.process import CoordinatorSettings, listen
from springtide.log_lines import configure_logging
from springtide.node.command_line import (
    EXIT_USAGE,
    CommandLineError,
    add_serve,
    config_pairs,
    favour_the_loop,
    id_of,
    node_settings,
    raise_open_files_limit,
    run_until_signal,
)
from springtide.node.config import NodeConfigError
from springtide.node.settings import NodePorts
from springtide.service_manager import ServiceManager

_log = logging.getLogger("coordinator")

DEFAULT_PORT = 9192


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    configure_logging(arguments.log_level, arguments.log_format)
    try:
        settings = _settings(arguments)
    except (CommandLineError, NodeConfigError) as error:
        print(f"coordinator: {error}", file=sys.stderr)
        return EXIT_USAGE
    _log.info("open_files_limit_raised files=%d", raise_open_files_limit())
    favour_the_loop()
    return trio.run(_run, settings)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="coordinator", description="A Springtide coordinator of client groups and transactions."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    add_serve(commands, what="coordinator", port=DEFAULT_PORT, keys=COORDINATOR_KEYS)
    return parser


def _settings(arguments: argparse.Namespace) -> CoordinatorSettings:
    config = CoordinatorConfig.parse(config_pairs(arguments))
    return CoordinatorSettings(
        coordinator_id=id_of(arguments, "coordinator"), config=config, **node_settings(arguments, config)
    )


async def _run(settings: CoordinatorSettings) -> int:
    ports = NodePorts(service=ServiceManager.of_environment(os.environ, pid=os.getpid()))
    return await run_until_signal(lambda: listen(settings, ports), settings, ports.service)


if __name__ == "__main__":
    sys.exit(main())
