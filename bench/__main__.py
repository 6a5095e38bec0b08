"""`python -m bench NAME ...`: one benchmark. Each is a module with `add_options(parser)` and `run(options)`,
which returns the exit status; a module's own words are its help."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from bench.command import WrongCommand
from bench.kafka import KafkaNotUsable
from bench.load_spec import LoadFailed
from bench.protocol import BadAnswer
from localcluster.cluster import CANNOT_RUN
from localcluster.ports import PortTaken

COMMANDS: Final = {
    "assignments": "assignors of `consumer` groups, and the loop that writes what they say",
    "cluster": "throughput, latency, processor time and memory of a cluster, alone or beside Apache Kafka",
    "compaction": "a compacted topic of many records, alone or beside Kafka",
    "control_plane": "questions about a large cluster, without processes",
    "groups": "consumer groups, alone or beside Kafka",
    "hot_path": "the steps of one replicated batch, in microseconds, without sockets",
    "land": "topics to Parquet, beside Spark's own writer",
    "pipeline": "the source and the sink under Spark",
    "rebalances": "how long groups of stock clients rebalance, alone or beside Kafka",
    "scale": "controllers with very many partitions",
    "transactions": "transactions of several sizes, alone or beside Kafka",
}
LOADS: Final = ("raw_load", "client_load", "pipe")
"""Processes that commands start."""
EXIT_FAILED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 when all was measured, 1 when something failed or is below its goal. Exit with 2 on a wrong
    command line."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if name in LOADS:
        import_module(f"bench.{name}").main(rest)
        return 0
    chooser = argparse.ArgumentParser(
        prog="python -m bench",
        usage="python -m bench NAME ...",
        description="Measure something. `python -m bench NAME --help` says how, and what else can be said.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"{each:14} {line}" for each, line in COMMANDS.items()),
    )
    chooser.add_argument("name", choices=COMMANDS, metavar="NAME", help="one of those below")
    module = import_module(f"bench.{chooser.parse_args([name]).name}")
    parser = argparse.ArgumentParser(
        prog=f"python -m bench {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_options(parser)
    try:
        status: int = module.run(parser.parse_args(rest))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except WrongCommand as wrong:
        parser.error(str(wrong))
    except (*CANNOT_RUN, KafkaNotUsable, PortTaken, LoadFailed, BadAnswer) as failure:
        sys.stderr.write(f"bench: {failure}\n")
        return EXIT_FAILED
    return status


if __name__ == "__main__":
    sys.exit(main())
