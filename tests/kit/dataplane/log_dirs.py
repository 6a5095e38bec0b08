"""The logs of a directory, loaded one after another."""

from __future__ import annotations

from dataplane.storage.log_dir import LoadedEntry, LogDir


def load_all(log_dir: LogDir, *, now_ms: int) -> list[LoadedEntry]:
    entries = [log_dir.load(name, now_ms=now_ms) for name in log_dir.partition_names()]
    log_dir.finish_loading()
    return entries
