"""The contents of a packed environment: distributions that are installed here, and those they require.

The packed tree is a virtual environment: Python finds `pyvenv.cfg` beside the folder of its program, where
Spark unpacked it, and the standard library at `home`. So hosts need the same Python at the same path, as with
venv-pack, and packages may be compiled. PySpark stays out: executors have it with Spark.

venv-pack takes all that is installed, but no editable project, and its archive depends on files' times. A pex
file goes by --files, not --archives; every host unpacks it once more into a cache that is never emptied, and
Python starts a second later.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from pipeline.errors import JobError

OURS: Final = "springtide"
OUR_EXTRA: Final = "pipeline"
OUR_PACKAGES: Final = ("pipeline", "pyspark_springtide", "springtide")
"""Our packages that a driver or a task imports."""
LEFT_OUT: Final = frozenset(
    {"pip", "py4j", "pyspark", "pyspark-client", "pyspark-connect", "setuptools", "wheel"}
)
FOLDERS_LEFT_OUT: Final = frozenset({"__pycache__", "tests"})
SUFFIXES_LEFT_OUT: Final = frozenset({".a", ".h", ".hpp", ".pxd", ".pyc", ".pyi", ".pyx"})
"""Files that only compilers and type checkers read."""


class Packed(NamedTuple):
    """One member of the archive: a file to copy, a text to write, or a link to make."""

    name: str
    source: Path | None = None
    text: str = ""
    link: str = ""


class Contents(NamedTuple):
    """members are sorted by name. distributions: `name version`, sorted."""

    members: tuple[Packed, ...]
    distributions: tuple[str, ...]


def contents(
    added: Sequence[str] = (),
    left_out: Iterable[str] = (),
    *,
    find: Callable[[str], Distribution] = distribution,
) -> Contents:
    """Return what the pipeline and `added` need of this environment, without `left_out` and what only those
    need. Raises JobError for an added distribution that is not installed, or can't be found on disk."""
    chosen = _closure(added, LEFT_OUT.union(map(canonicalize_name, left_out)), find)
    members = {one.name: one for one in _interpreter()}
    where = site_packages()
    for package in OUR_PACKAGES:
        members |= {one.name: one for one in _package(package, where)}
    for name, found in chosen.items():
        if name != OURS:
            members |= {one.name: one for one in _distribution(found, where)}
    told = sorted(f"{name} {found.version}" for name, found in chosen.items())
    return Contents(tuple(sorted(members.values(), key=lambda one: one.name)), tuple(told))


def site_packages() -> str:
    return f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def _closure(
    added: Sequence[str], left_out: frozenset[str], find: Callable[[str], Distribution]
) -> dict[str, Distribution]:
    """Return distributions by normal name; those that are required and not installed are left out."""
    waiting: list[tuple[str, frozenset[str], bool]] = [(OURS, frozenset({OUR_EXTRA}), False)]
    waiting += [(*parse_requirement(text), True) for text in added]
    chosen: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, extras, is_asked_for = waiting.pop()
        if (name, extras) in seen or name in left_out:
            continue
        seen.add((name, extras))
        try:
            found = chosen[name] = find(name)
        except PackageNotFoundError:
            if is_asked_for:
                raise JobError(
                    f"{name} is not installed here",
                    "What is packed is what is installed: pip install it first.",
                ) from None
            continue
        waiting += [(*needed, False) for needed in required(found.requires or (), extras)]
    return chosen


def parse_requirement(text: str) -> tuple[str, frozenset[str]]:
    """(normal name, extras) of `name[extra]>=1`. Raises JobError."""
    try:
        asked = Requirement(text)
    except InvalidRequirement as error:
        raise JobError(f"{text!r} is no name of a distribution", "For example: --with polars") from error
    return canonicalize_name(asked.name), frozenset(asked.extras)


def required(requires: Iterable[str], extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield what a distribution with these extras needs on this platform and Python."""
    for needed in map(Requirement, requires):
        if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras or {""}):
            yield canonicalize_name(needed.name), frozenset(needed.extras)


def _interpreter() -> Iterator[Packed]:
    program = Path(sys.executable).resolve()
    version = ".".join(map(str, sys.version_info[:3]))
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    yield Packed(
        "pyvenv.cfg",
        text=f"home = {program.parent}\ninclude-system-site-packages = false\nversion = {version}\n",
    )
    yield Packed(f"bin/{name}", link=str(program))
    yield Packed("bin/python3", link=name)
    yield Packed("bin/python", link=name)


def _distribution(found: Distribution, where: str) -> Iterator[Packed]:
    if _is_editable(found):
        for package in (found.read_text("top_level.txt") or "").split():
            yield from _package(package, where)
        return
    if found.files is None:
        raise JobError(
            f"{found.name}: its installer kept no list of its files",
            "Install it with pip, or leave it out and ship it another way (--without, --py-files).",
        )
    for path in found.files:
        if ".." not in path.parts and not is_left_out(PurePosixPath(*path.parts)):
            source = Path(str(path.locate()))
            if source.is_file():
                yield Packed(f"{where}/{path.as_posix()}", source)


def _is_editable(found: Distribution) -> bool:
    told = found.read_text("direct_url.json")
    return told is not None and bool(json.loads(told).get("dir_info", {}).get("editable"))


def _package(name: str, where: str) -> Iterator[Packed]:
    """Yield a package's files from where it would be imported, perhaps a checkout."""
    spec = find_spec(name)
    if spec is None or not (spec.submodule_search_locations or spec.origin):
        raise JobError(
            f"package {name} cannot be found",
            "An editable install that has gone stale looks like this: pip install the project again.",
        )
    if not spec.submodule_search_locations:
        yield Packed(f"{where}/{Path(str(spec.origin)).name}", Path(str(spec.origin)))
        return
    for root in map(Path, spec.submodule_search_locations):
        for source in sorted(root.rglob("*")):
            inside = PurePosixPath(name, *source.relative_to(root).parts)
            if source.is_file() and not is_left_out(inside):
                yield Packed(f"{where}/{inside}", source)


def is_left_out(path: PurePosixPath) -> bool:
    """Return whether the archive leaves the file out, because no task imports or reads it."""
    return path.suffix in SUFFIXES_LEFT_OUT or not FOLDERS_LEFT_OUT.isdisjoint(path.parts)
