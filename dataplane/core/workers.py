"""The workers of a broker: what differs between the processes that `dataplane serve --workers N` starts.

Each worker is a broker to clients and to replication, with an id, ports and a folder of its own. Worker 0 is
what the broker is without others: it has the broker's id, its ports as they are configured and its directory.
So a host goes from one worker to several with its data in place.

    id         broker_id + k * WORKER_ID_STEP
    ports      each of the broker's + k; port 0, which lets the kernel choose, stays 0
    directory  the folder worker-k in the broker's

Pure: numbers and names in, numbers and names out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from springtide.contract.session import WORKER_ID_STEP, WORKERS_MAX

PORT_MAX = 65_535
RESTART_MS_MIN = 1_000
RESTART_MS_MAX = 30_000
"""A worker that ran for so long has started well: its next restart waits for RESTART_MS_MIN only."""

_ANY_HOST = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound
_FOLDER = re.compile(r"worker-([1-9][0-9]{0,3})")


class WorkersRefused(Exception):
    """A broker can't have so many workers; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An address of the broker as it is configured. name: what operators call it. is_advertised: clients are
    told of it; otherwise the broker listens there."""

    name: str
    host: str
    port: int
    is_advertised: bool = False


def check_workers(broker_id: int, workers: int, endpoints: Sequence[Endpoint]) -> None:
    """Raise WorkersRefused if a broker with this id and these addresses can't have so many workers."""
    if not 1 <= workers <= WORKERS_MAX:
        raise WorkersRefused(f"--workers takes a number from 1 to {WORKERS_MAX:,}, not {workers}")
    if workers == 1:
        return
    if broker_id >= WORKER_ID_STEP:
        raise WorkersRefused(
            f"--workers {workers} needs a --broker-id below {WORKER_ID_STEP:,}: worker 1 of broker 5 has the "
            f"id {WORKER_ID_STEP + 5}"
        )
    for one in endpoints:
        if one.port + workers - 1 > PORT_MAX:
            raise WorkersRefused(
                f"{one.name} has port {one.port}, and worker {workers - 1} would need "
                f"{one.port + workers - 1}: choose a port of at most {PORT_MAX - workers + 1}"
            )
    for low, high in combinations(sorted(endpoints, key=lambda each: each.port), 2):
        _check_apart(low, high, workers)


def _check_apart(low: Endpoint, high: Endpoint, workers: int) -> None:
    """Raise WorkersRefused if a worker's address of one is some worker's of the other."""
    apart = high.port - low.port
    # That two listeners of one worker are advertised at one address is allowed without workers, too.
    least = 1 if low.is_advertised else 0
    if low.port == 0 or not least <= apart < workers or not _is_same_host(low, high):
        return
    verb = "told clients" if low.is_advertised else "bound"
    raise WorkersRefused(
        f"{low.name} of worker {apart} and {high.name} of worker 0 would both be {verb} as "
        f"{high.host}:{high.port}: choose ports that are {workers} or more apart, because worker k has each "
        "port + k"
    )


def _is_same_host(one: Endpoint, other: Endpoint) -> bool:
    if one.is_advertised is not other.is_advertised:
        return False
    if not one.is_advertised and (one.host in _ANY_HOST or other.host in _ANY_HOST):
        return True
    return one.host.casefold() == other.host.casefold()


def worker_port(port: int, number: int) -> int:
    """Return the port of worker `number` where the broker's is `port`."""
    return port and port + number


def worker_share(total: int, workers: int) -> int:
    """Return a worker's share of what a host has once, rounded up, so that of something each gets some."""
    return -(-total // workers)


def worker_directory(directory: str, number: int) -> str:
    """Return the directory of worker `number` where the broker's is `directory`."""
    return f"{directory}/worker-{number}" if number else directory


def folder_number(name: str) -> int | None:
    """Return the number of the worker whose folder in the broker's directory has this name, or None if it is
    no worker's. A partition's directory has a dot in its name, so it is none."""
    match = _FOLDER.fullmatch(name)
    return None if match is None or int(match[1]) >= WORKERS_MAX else int(match[1])


def check_folders(path: str, numbers: Iterable[int], workers: int) -> None:
    """Raise WorkersRefused if one of these workers, whose folders in the broker's directory `path` hold data,
    would not be started."""
    unserved = sorted(number for number in numbers if number >= workers)
    if not unserved:
        return
    last = unserved[-1]
    raise WorkersRefused(
        f"{worker_directory(path, last)} holds data of worker {last}, which --workers {workers} does not "
        f"start: start with --workers {last + 1}, drain the broker and then lower the number; or, if nothing "
        "in the folder is needed, move it away"
    )


def restart_after_ms(previous_ms: int, ran_ms: int) -> int:
    """Return how long a worker that died after `ran_ms` waits for its restart. previous_ms: the wait before
    that run; 0 if it was the first."""
    if ran_ms >= RESTART_MS_MAX:
        return RESTART_MS_MIN
    return min(max(2 * previous_ms, RESTART_MS_MIN), RESTART_MS_MAX)
