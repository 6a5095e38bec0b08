"""How the tests are arranged stays as tests/README.md says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
#: A process of its own each, or one that closes it itself.
OTHER_ADMIN_CLIENTS = ("tests/interop/drivers/", "tests/interop/apps/programs/", "tests/interop/checks.py")
#: What they share is in the kit; the other folders are programs with tests of their own.
ONLY_TESTS = ("browser", "integration", "unit")


def imported(path: Path) -> set[str]:
    """The whole name of each module that a file may import: of `from a import b` both a and a.b."""
    package = path.relative_to(ROOT).parent.parts
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            beginning = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join((*beginning, *filter(None, [node.module])))
            found |= {origin, *(f"{origin}.{name.name}" for name in node.names)}
    return found


def test_no_module_imports_a_test() -> None:
    wrong = {
        f"{path.relative_to(ROOT)}: {module}"
        for path in TESTS.rglob("*.py")
        for module in imported(path)
        if module.startswith(("tests.", "test_"))
        and any(part.startswith("test_") for part in module.split("."))
    }
    assert not wrong


@pytest.mark.parametrize("folder", ONLY_TESTS)
def test_a_folder_of_tests_holds_nothing_else(folder: str) -> None:
    names = {path.name for path in (TESTS / folder).rglob("*.py")}
    assert {name for name in names if not name.startswith("test_")} <= {"conftest.py", "__init__.py"}


def test_each_folder_of_unit_tests_is_named_after_the_folder_it_tests() -> None:
    """A product's folder, or the folder of tests whose code these tests try."""
    unit = TESTS / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")} - {Path()}
    assert folders
    assert {str(one) for one in folders if not ((ROOT / one).is_dir() or (TESTS / one).is_dir())} == set()


def test_each_test_file_that_a_document_names_is_there_once() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in TESTS.rglob("test_*.py")]
    named = {
        (document.name, name)
        for document in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), TESTS / "README.md")
        for name in re.findall(r"`((?:[\w/]+/)?test_\w+\.py)`", document.read_text(encoding="utf-8"))
    }
    assert named
    assert {
        (where, name) for where, name in named if sum(f"/{f}".endswith(f"/{name}") for f in files) != 1
    } == set()


def test_librdkafkas_admin_client_is_opened_by_a_with_statement() -> None:
    """What a traceback holds is left to the collector. If that happens to run in the client's own background
    thread, which calls Python to tell of an answer, librdkafka ends the whole process: an abort somewhere in
    a later test (confluent-kafka-python's pull request 2131)."""
    left: set[str] = set()
    for folder in ("tests", "localcluster"):
        for path in (ROOT / folder).rglob("*.py"):
            if b"AdminClient(" not in (source := path.read_bytes()):
                continue
            nodes = [*ast.walk(ast.parse(source))]
            opened = {
                id(one.context_expr) for node in nodes if isinstance(node, ast.With) for one in node.items
            }
            left |= {
                f"{path.relative_to(ROOT)}:{node.lineno}"
                for node in nodes
                if isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "AdminClient"
                and id(node) not in opened
            }
    assert {one for one in left if not one.startswith(OTHER_ADMIN_CLIENTS)} == set()
