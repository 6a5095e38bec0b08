"""`python -m tests.faults.nemesis --minutes 5 --seed N`: faults by seed against real processes.

Exit code 0: everything held; 1: something did not; 3: this machine can't run simulated hosts.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from localcluster.processes import ProcessFailed
from localcluster.rest import RestFailed
from tests.faults.hosts.sandbox import SandboxUnavailable, enter_or_say_why_not
from tests.faults.nemesis.figures import render_part
from tests.faults.nemesis.kinds import PROCESS_KINDS
from tests.faults.nemesis.kinds_coordinator import COORDINATOR_KINDS
from tests.faults.nemesis.kinds_disk import DISK_KINDS
from tests.faults.nemesis.kinds_network import NETWORK_KINDS
from tests.faults.nemesis.kinds_unclean import UNCLEAN_KINDS
from tests.faults.nemesis.run import RECORDS, remove, run, transactions
from tests.proof.part import DIRECTORY, save

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_UNAVAILABLE = 3
MINUTES_MAX = 60.0

KINDS = {kind.name: kind for kind in (*PROCESS_KINDS, *NETWORK_KINDS, *DISK_KINDS)}
WITH_COORDINATORS = KINDS | {kind.name: kind for kind in COORDINATOR_KINDS}
WITHOUT_DISKS = {
    kind.name: kind for kind in (*UNCLEAN_KINDS, *PROCESS_KINDS, *NETWORK_KINDS, *COORDINATOR_KINDS)
}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.nemesis", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long faults strike (default 5)")
    parser.add_argument("--seed", type=int, default=1, help="decides which faults, when, how long")
    names = sorted(WITH_COORDINATORS | WITHOUT_DISKS)
    parser.add_argument("--only", nargs="+", choices=names, metavar="KIND", help=f"of: {', '.join(names)}")
    parser.add_argument(
        "--transactions",
        action="store_true",
        help="clients write, and read, in transactions, and coordinators are struck too",
    )
    parser.add_argument(
        "--unclean",
        action="store_true",
        help="with transactions: min.insync.replicas=1 and unclean elections, and leaders that die alone",
    )
    parser.add_argument(
        "--kafka-home",
        type=Path,
        metavar="DIR",
        help="half of the clients with transactions are Java's in DIR/libs, which speaks version 2",
    )
    parser.add_argument("--directory", type=Path, help="keep logs and history here (default: if it fails)")
    parser.add_argument("--part", type=Path, default=DIRECTORY, help="where the figures go")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    if not 0 < options.minutes <= MINUTES_MAX:
        build_parser().error(f"--minutes is more than 0 and at most {MINUTES_MAX:g}")
    if not enter_or_say_why_not():
        return EXIT_UNAVAILABLE
    for number in (signal.SIGTERM, signal.SIGINT):  # A shell's background jobs ignore the latter.
        signal.signal(number, signal.default_int_handler)
    workload, known = RECORDS, KINDS
    if options.unclean and not options.transactions:
        build_parser().error("--unclean is tried with --transactions")
    if options.transactions:
        workload = transactions(options.kafka_home, unclean=options.unclean)
        known = WITHOUT_DISKS if options.unclean else WITH_COORDINATORS
    if not set(options.only or ()) <= known.keys():
        build_parser().error(f"of {', '.join(options.only)}, some are not there in such a run")
    replay = (
        f"python -m tests.faults.nemesis --minutes {options.minutes:g} --seed {options.seed}"
        + (" --transactions" if options.transactions else "")
        + (" --unclean" if options.unclean else "")
        + (f" --kafka-home {options.kafka_home}" if options.kafka_home else "")
        + (f" --only {' '.join(options.only)}" if options.only else "")
    )
    directory = options.directory or Path(tempfile.mkdtemp(prefix="springtide-nemesis-"))
    directory = directory.resolve()
    started_at = time.monotonic()

    def tell(line: str) -> None:
        print(f"[{time.monotonic() - started_at:6.1f} s] {line}", flush=True)

    tell(replay)
    kinds = [known[name] for name in options.only or known]
    try:
        part, verdict = run(
            seed=options.seed,
            seconds=options.minutes * 60,
            kinds=kinds,
            workload=workload,
            directory=directory,
            tell=tell,
        )
    except KeyboardInterrupt:
        tell("interrupted; everything was stopped")
        if options.directory is None:
            remove(directory)
        return EXIT_FAILED
    except (ProcessFailed, TimeoutError, RestFailed, SandboxUnavailable) as failure:
        print(f"FAILED: {failure}\n  seed {options.seed}; logs: {directory}; again: {replay}", flush=True)
        return EXIT_FAILED
    print(verdict.report())
    for line in render_part(part):
        print(line)
    print(f"figures: {save(part, options.part)}")
    if part.is_ok:
        if options.directory is None:
            remove(directory)
        return EXIT_OK
    for failure_line in part.failures:
        print(f"FAILED {failure_line}")
    print(f"seed {options.seed}; history and logs: {directory}\nagain: {replay}")
    return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
