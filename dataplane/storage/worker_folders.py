"""The folders of a broker's other workers, in its directory: `worker-1`, `worker-2`, ... (core/workers.py).

Each is a log directory of its own, with its lock, identity and checkpoints. A broker that starts with fewer
workers than before must not leave data behind that no process serves.
"""

from __future__ import annotations

from dataplane.core.workers import folder_number
from dataplane.storage.directory_claim import is_anothers
from dataplane.storage.disk import DELETED_SUFFIX, Disk


def workers_with_data(disk: Disk, path: str, first: int) -> list[int]:
    """Return the numbers, from `first` on, of workers whose folders in the directory `path` hold replicas,
    or what was set aside of some. Raise OSError."""
    if not disk.exists(path):
        return []
    numbered = ((name, folder_number(name)) for name in disk.listdir(path))
    return [
        number
        for name, number in numbered
        if number is not None
        and number >= first
        and disk.is_dir(f"{path}/{name}")
        and _holds_data(disk, f"{path}/{name}")
    ]


def _holds_data(disk: Disk, folder: str) -> bool:
    names = disk.listdir(folder)
    kept = (name for name in names if not name.endswith(DELETED_SUFFIX) and not is_anothers(name))
    return any(disk.is_dir(f"{folder}/{name}") and disk.listdir(f"{folder}/{name}") for name in kept)
