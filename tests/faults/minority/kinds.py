"""The kinds of files that a broker keeps, and where they exist.

A name that begins with "/" lies in the data directory, the others in a partition's. What was set aside
(`quarantine/`, `divergent/`) is left alone: no record is served from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

ORDERS, LEDGER = "orders", "ledger"
"""The topics: the second is compacted, and written in transactions."""
CLEAN_SHUTDOWN, ROTTEN = "/clean-shutdown", "rotten"

LOG_FILES = ("*.log", "*.index", "*.snapshot", "leader-epochs", "partition.json", "seal", ROTTEN)
LEDGER_FILES = ("*.txnindex", "rounds", "copied", "compacted")
BROKER_FILES = (
    "/high-watermark-checkpoint",
    "/recovery-point-checkpoint",
    "/log-start-offset-checkpoint",
    "/scrub-checkpoint",
    "/controller-epoch",
    "/meta.json",
    CLEAN_SHUTDOWN,
)
EMPTY_FILES = ("*.aborted", "/.mount-mark", "/fresh-mark", "/.lock")
"""They can only be lost."""
ALL = (*LOG_FILES, *LEDGER_FILES, *BROKER_FILES, *EMPTY_FILES)

_PASSING = ("*.tmp", "*.cleaned")
_ASIDE = ("quarantine", "divergent", "lost+found")
_AN_INDEX_OF_NOTHING_BYTES = 4


def topic_of(kind: str) -> str:
    """Return the topic whose leader is struck first, and whose log is, where the file is a log's."""
    return LEDGER if kind in (*LEDGER_FILES, "*.aborted") else ORDERS


def files_of_kind(data: Path, kind: str) -> list[Path]:
    """Return the files of a kind in one broker's directory, oldest first, without those that hold nothing."""
    pattern = kind[1:] if kind.startswith("/") else f"{topic_of(kind)}-0.*/{kind}"
    least = -1 if kind in EMPTY_FILES else _AN_INDEX_OF_NOTHING_BYTES if kind == "*.txnindex" else 0
    return sorted(path for path in data.glob(pattern) if path.stat().st_size > least)


def of_no_kind(data: Path) -> set[str]:
    """Return the names of files in a broker's directory and its logs' that no kind stands for."""
    found = {f"/{path.name}" for path in data.iterdir() if path.is_file()}
    for folder in data.iterdir():
        if folder.is_dir() and folder.name not in _ASIDE:
            found |= {path.name for path in folder.iterdir()}
    return {name for name in found if not _is_any_of(name, (*ALL, *_PASSING))}


def _is_any_of(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)
