"""Writes an archive that depends on its contents only: the same environment gives the same bytes, so a
checksum shows changes, and a cluster's cache stays valid."""

from __future__ import annotations

import gzip
import os
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Final

from pipeline.pack.contents import Packed
from springtide.cli.call import UsageError

SUFFIXES: Final = (".tar.gz", ".tgz")
LEVEL_DEFAULT: Final = 6
_MTIME: Final = 315_532_800
"""1980-01-01: some tools know no earlier date."""
_PROGRAM, _PLAIN = 0o755, 0o644


def check_name(path: Path) -> None:
    """Raise UsageError unless Spark calls the host's tar for the name. For a plain .tar it uses Hadoop's
    Java, which loses the permission to execute, resolves links from the wrong folder and refuses those that
    lead out (Spark 4.3, Utils.unpack)."""
    if not path.name.lower().endswith(SUFFIXES):
        raise UsageError(
            f"{path}: the name must end in .tar.gz or .tgz, or Spark does not unpack it as it is"
        )


def write_archive(
    path: Path,
    members: Sequence[Packed],
    *,
    level: int = LEVEL_DEFAULT,
    done: Callable[[int], None] = lambda _: None,
) -> int:
    """Write the archive, whole or not at all; return its size in bytes. `done` gets the number of members so
    far."""
    check_name(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    number, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with ExitStack() as stack:
            out = stack.enter_context(os.fdopen(number, "wb"))
            zipped = gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=level, mtime=0)
            stack.enter_context(zipped)
            tar = stack.enter_context(tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT))
            folders: set[PurePosixPath] = set()
            for count, member in enumerate(members, start=1):
                for folder in reversed(PurePosixPath(member.name).parents[:-1]):
                    if folder not in folders:
                        folders.add(folder)
                        _add_folder(tar, str(folder))
                _add(tar, member)
                done(count)
        Path(part).chmod(_PLAIN)
        Path(part).replace(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
    return path.stat().st_size


def _add_folder(tar: tarfile.TarFile, name: str) -> None:
    """Add a folder before its files: some tools make none for a link."""
    info = tarfile.TarInfo(name)
    info.type, info.mtime, info.mode = tarfile.DIRTYPE, _MTIME, _PROGRAM
    tar.addfile(info)


def _add(tar: tarfile.TarFile, member: Packed) -> None:
    info = tarfile.TarInfo(member.name)
    info.mtime = _MTIME
    info.mode = _PLAIN
    if member.link:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, member.link, 0o777
        tar.addfile(info)
    elif member.source is None:
        data = member.text.encode()
        info.size = len(data)
        tar.addfile(info, BytesIO(data))
    else:
        with member.source.open("rb") as source:
            told = os.fstat(source.fileno())
            info.size = told.st_size
            info.mode = _PROGRAM if told.st_mode & 0o100 else _PLAIN
            tar.addfile(info, source)
