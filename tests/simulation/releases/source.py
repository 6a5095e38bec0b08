"""The last release beside this one in one interpreter: a copy of its sources with other package names.

The commit that tests/upgrade/last_release names is exported, and each of its packages, its own drivers of the
simulation among them, gets the prefix `last_` in its name and in every import. What stands for the world
outside of processes (`WORLD`) is imported from this release, so that both are of one world.

    python -m tests.simulation.releases.source

makes the copy and imports all of the product. Exit status: 0 it is sound; 1 it can't be made, with what to
do about it.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import io
import re
import shutil
import sys
import tarfile
import tokenize
from pathlib import Path
from types import ModuleType
from typing import Final

from tests.upgrade.last_release import NAMED, ROOT, LastReleaseUnavailable, exported, named

PLACE = ROOT / "build" / "last-release-renamed"

PREFIX: Final = "last_"
PACKAGES: Final = ("controller", "coordinator", "dataplane", "springtide", "tests")
#: Of `tests`, what nodes need.
TESTS: Final = (
    "__init__.py",
    "kit/__init__.py",
    "kit/controller",
    "kit/coordinator",
    "kit/memory",
    "simulation",
)
#: The same for both: what lies between processes, and who asks from outside.
WORLD: Final = frozenset(
    f"tests.simulation.{name}" for name in ("clients", "events", "network", "violation", "zookeeper")
)
#: What is imported: with it comes everything that a simulated process of that release is made of.
DRIVERS: Final = tuple(
    f"tests.simulation.{name}" for name in ("broker_node", "controller_node", "coordinator_node", "disk")
)


def renamed(source: str) -> str:
    """Return a module's source with every import of `PACKAGES` that is not of the `WORLD` renamed.

    Raise ValueError for `import package.module`, whose uses would have to be renamed as well.
    """
    lines = source.splitlines(keepends=True)
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in (tokenize.COMMENT, tokenize.NL)
    ]
    starts = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    for place, token in enumerate(tokens[:-1]):
        is_first = not place or tokens[place - 1].type in starts or tokens[place - 1].string in (":", ";")
        package = tokens[place + 1]
        if not is_first or token.string not in ("from", "import") or package.string not in PACKAGES:
            continue
        if token.string == "import":
            raise ValueError(
                f"line {token.start[0]}: {token.line.strip()!r} can't be renamed; import from it"
            )
        named = re.match(r"\s*from\s+([\w.]+)\s+import\s+(\w+)?", token.line[token.start[1] :])
        if named is not None and {named[1], f"{named[1]}.{named[2]}"} & WORLD:
            continue
        row, column = package.start
        lines[row - 1] = f"{lines[row - 1][:column]}{PREFIX}{lines[row - 1][column:]}"
    return "".join(lines)


def place() -> Path:
    """Return the folder with the renamed packages; make it if it is not there yet.

    Raises:
        LastReleaseUnavailable: with what to do.
    """
    commit = named(NAMED.read_text(encoding="utf-8")).commit
    made = PLACE / f"{commit}-{_own_stamp()}"
    if made.is_dir():
        return made
    PLACE.mkdir(parents=True, exist_ok=True)
    with (PLACE / "lock").open("w") as lock:  # several workers of a sweep make it once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.is_dir():
            beginning = made.with_suffix(".partial")
            shutil.rmtree(beginning, ignore_errors=True)
            _make(beginning, commit)
            beginning.rename(made)
    return made


def _own_stamp() -> str:
    """Another rule of renaming makes another copy."""
    return hashlib.blake2b(Path(__file__).read_bytes(), digest_size=6).hexdigest()


def _make(beginning: Path, commit: str) -> None:
    paths = [name for name in PACKAGES if name != "tests"] + [f"tests/{name}" for name in TESTS]
    with tarfile.open(fileobj=io.BytesIO(exported(commit, *paths))) as files:
        files.extractall(beginning, filter="data")
    for package in PACKAGES:
        (beginning / package).rename(beginning / f"{PREFIX}{package}")
    for path in sorted(beginning.rglob("*.py")):
        if not path.name.startswith("test_"):
            path.write_text(renamed(path.read_text(encoding="utf-8")), encoding="utf-8")


def last(module: str) -> ModuleType:
    """Return the last release's module of this name."""
    if module in WORLD:
        return importlib.import_module(module)
    where = str(place())
    if where not in sys.path:
        sys.path.append(where)
    return importlib.import_module(f"{PREFIX}{module}")


def main() -> int:
    try:
        where = place()
        names = [
            ".".join(path.relative_to(where).with_suffix("").parts) for path in sorted(where.rglob("*.py"))
        ]
        modules = [name.removeprefix(PREFIX).removesuffix(".__init__") for name in names]
        product = [name for name in modules if not name.startswith("tests") and "__main__" not in name]
        for module in (*product, *DRIVERS):
            last(module)
    except (LastReleaseUnavailable, ImportError, ValueError) as reason:
        print(f"no last release: {reason}", file=sys.stderr)
        return 1
    print(f"{where}: {len(product)} modules of the product")
    return 0


if __name__ == "__main__":
    sys.exit(main())
