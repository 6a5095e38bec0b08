"""Measure the seams of the code in the current directory from its text: nothing of the product is imported.

A figure of a place that an older or a newer revision does not have is 0.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path

PRODUCT = (
    "admin_api",
    "controller",
    "coordinator",
    "dataplane",
    "springtide",
    "pipeline",
    "pyspark_springtide",
    "migrations",
    "localcluster",
    "bench",
)
#: They put a process together, and see what they put together.
REST_ROOTS = ("admin_api.__main__", "admin_api.issuer", "admin_api.unconnected")
#: Where what strangers send is handled.
EDGE = ("dataplane/handlers", "coordinator/handlers", "springtide/node/handlers")
SIMULATED = ("broker_node.py", "controller_node.py")
ENGINE, CONNECTION = "controller/shell/engine.py", "springtide/node/connection.py"
#: Where these commands leave how many seconds they last took, when they passed.
SECONDS = {
    "make check": "build/seconds-check",
    "make test": "build/seconds-test",
    ".ci/run": "build/seconds-ci",
}
#: Parameters that should have a type of their own: an offset, an epoch or an id.
NUMBER = re.compile(r"(^|_)(offset|epoch|id)$")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(Path(folder).rglob("*.py"))


def nodes(*folders: str) -> Iterator[ast.AST]:
    for path in sources(*folders):
        yield from ast.walk(parsed(path))


def called(node: ast.AST) -> str:
    """Return the last name of what is called; "" if the node is no call."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def calls_of(name: str, *folders: str) -> int:
    return sum(called(node).lstrip("_") == name for node in nodes(*folders))


def handed_out(name: str, *folders: str) -> int:
    """Return how often a call passes something on under that name."""
    return sum(isinstance(node, ast.keyword) and node.arg == name for node in nodes(*folders))


def lines(*paths: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in paths if path.exists())


@cache
def arrows() -> frozenset[tuple[str, str]]:
    """Return (module, what it imports) of the product; of `from a import b` both a and a.b."""
    found: set[tuple[str, str]] = set()
    for path in sources(*PRODUCT):
        module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import):
                found |= {(module, name.name) for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found |= {(module, node.module)}
                found |= {(module, f"{node.module}.{name.name}") for name in node.names}
    return frozenset(found)


def imported_both_ways() -> list[str]:
    pairs = {(one.partition(".")[0], other.partition(".")[0]) for one, other in arrows()}
    return [
        f"{one} and {other}"
        for one, other in combinations(PRODUCT, 2)
        if {(one, other), (other, one)} <= pairs
    ]


def seen_by_rest() -> str:
    """Return how many modules of the controller REST imports, and how many more its roots do."""
    modules = {
        ".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in sources("controller")
    }
    packages = {module for module in modules if Path(*module.split(".")).is_dir()}
    seen = {
        (one, other)
        for one, other in arrows()
        if one.startswith("admin_api.") and other in modules - packages
    }
    of_rest = {other for one, other in seen if one not in REST_ROOTS}
    return f"{len(of_rest)}, and its roots {len({other for _, other in seen} - of_rest)} more"


def class_named(path: str, name: str) -> ast.ClassDef | None:
    if not Path(path).exists():
        return None
    found = (node for node in parsed(Path(path)).body if isinstance(node, ast.ClassDef) and node.name == name)
    return next(found, None)


def methods(path: str, name: str) -> int:
    """Return how many public methods and properties a class has."""
    found = class_named(path, name)
    return 0 if found is None else sum(isinstance(n, Function) and n.name[0] != "_" for n in found.body)


def flags(path: str, name: str) -> int:
    """Return how many attributes of a class are somewhere set to True or False."""
    found = class_named(path, name)
    started = {
        target.attr
        for node in (() if found is None else ast.walk(found))
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Attribute) and isinstance(node.value.value, bool)
    }
    return len(started)


def longest_constructor() -> tuple[int, str]:
    """Return its lines, and whose it is."""
    return max(
        (one.end_lineno - one.lineno + 1, f"{path}:{node.name}")
        for path in sources(*PRODUCT)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
        for one in node.body
        if isinstance(one, Function) and one.name == "__init__" and one.end_lineno is not None
    )


def numbers_in_signatures() -> tuple[int, int]:
    """Return how many parameters of public functions, and fields of public classes, are an offset, an epoch
    or an id: with a NewType, and as a bare int."""
    new_types = {
        target.id
        for node in nodes("springtide", "controller", "dataplane", "coordinator")
        if isinstance(node, ast.Assign) and called(node.value) == "NewType"
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    typed = bare = 0
    for name, annotation in _declared():
        if NUMBER.search(name):
            names = {one.id for one in ast.walk(annotation) if isinstance(one, ast.Name)}
            typed += bool(names & new_types)
            bare += "int" in names
    return typed, bare


def _declared() -> Iterator[tuple[str, ast.expr]]:
    for node in nodes(*PRODUCT):
        if isinstance(node, Function) and node.name[0] != "_":
            arguments = node.args
            for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                if one.annotation is not None:
                    yield one.arg, one.annotation
        elif isinstance(node, ast.ClassDef) and node.name[0] != "_":
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    yield field.target.id, field.annotation


def requirements() -> list[str]:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [found[0] for one in project["dependencies"] if (found := re.match(r"[\w-]+", one))]


def seams() -> dict[str, object]:
    """Return each seam's figure by its name."""
    typed, bare = numbers_in_signatures()
    constructor, whose = longest_constructor()
    both_ways = imported_both_ways()
    needed = requirements()
    simulation = Path("tests/simulation")
    return {
        "`end_turn` called": calls_of("end_turn", *PRODUCT),
        "`end_turn` handed out": handed_out("end_turn", *PRODUCT),
        "`cast` in handlers": calls_of("cast", *EDGE),
        "`getattr` in handlers": calls_of("getattr", *EDGE),
        **{f"lines of simulation/{name}": lines(simulation / name) for name in SIMULATED},
        "pairs of packages that import both ways": f"{len(both_ways)}: {', '.join(both_ways)}"
        if both_ways
        else 0,
        "modules of the controller that REST imports": seen_by_rest(),
        "public methods of `Engine`": methods(ENGINE, "Engine"),
        "flags of `Connection`": flags(CONNECTION, "Connection"),
        "lines of the longest constructor": f"{constructor} ({whose.rpartition('/')[2]})",
        "offsets, epochs and ids as NewTypes": typed,
        "offsets, epochs and ids as ints": bare,
        "runtime dependencies": f"{len(needed)}: {', '.join(needed)}",
    }


def sizes() -> dict[str, object]:
    """Return the lines of Python of each package and each folder of tests; unit tests by package."""
    product = {f"lines of {package}": lines(*sources(package)) for package in PRODUCT}
    folders = (*Path("tests").iterdir(), *Path("tests/unit").iterdir())
    tests = sorted(path for path in folders if path.is_dir() and path.name != "unit")
    tested = {f"lines of {path}": count for path in tests if (count := lines(*sources(str(path))))}
    return {
        **product,
        "lines of the product": sum(product.values()),
        **tested,
        "lines of the tests": lines(*sources("tests")),
    }


def seconds() -> dict[str, object]:
    """Return what each command took that has been run here."""
    return {
        f"seconds of `{command}`": int(Path(file).read_text(encoding="ascii"))
        for command, file in SECONDS.items()
        if Path(file).exists()
    }
