"""Revisions keep what releases that run side by side need of them (migrations/__init__.py has the rules)."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import migrations
from controller.database import schema
from springtide.levels import NEWEST, RELEASES, UNTOLD, Level

VERSIONS = Path(next(iter(migrations.__path__))) / "versions"
FILES = {path.name[:4]: path for path in VERSIONS.glob("[0-9]*.py")}
#: The last that was made before there were rules.
LAST_FREE = "0009"


def _loaded(path: Path) -> ModuleType:
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def narrowings(source: str) -> list[str]:
    """Return each thing in a revision's `upgrade` that is no expansion."""
    tree = ast.parse(source)
    upgrade = next(
        found for found in tree.body if isinstance(found, ast.FunctionDef) and found.name == "upgrade"
    )
    calls = [found for found in ast.walk(upgrade) if isinstance(found, ast.Call)]
    made: set[str] = set()
    wrong: list[str] = []
    of_op = [call for call in calls if _is_of_op(call)]
    for call in of_op:
        if _name(call) == "create_table":
            made.add(_text(call.args[0]))
    for call in of_op:
        match _name(call):
            case "create_table" | "bulk_insert":
                pass
            case "create_index":
                if _keyword(call, "unique") is True and _text(call.args[1]) not in made:
                    wrong.append(f"line {call.lineno}: an index that is unique, on a table that was there")
            case "add_column":
                column = call.args[1]
                if not isinstance(column, ast.Call) or _keyword(column, "nullable") is not True:
                    wrong.append(f"line {call.lineno}: a column that may not be NULL")
            case name:
                wrong.append(f"line {call.lineno}: op.{name}")
    return wrong


def _is_of_op(call: ast.Call) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "op"
    )


def _name(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Attribute)
    return call.func.attr


def _text(node: ast.expr) -> str:
    assert isinstance(node, ast.Constant), "a table's name is written out"
    return str(node.value)


def _keyword(call: ast.Call, name: str) -> object:
    found = [one.value for one in call.keywords if one.arg == name]
    return found[0].value if found and isinstance(found[0], ast.Constant) else None


def test_the_schema_knows_each_revision_in_its_order() -> None:
    assert list(schema.OLDEST_LEVELS) == sorted(FILES)


@pytest.mark.parametrize("revision", sorted(name for name in FILES if name > LAST_FREE))
def test_a_revision_expands_or_names_the_release_that_stopped_using_what_it_takes(revision: str) -> None:
    path = FILES[revision]
    module = _loaded(path)
    assert module.oldest_level == schema.OLDEST_LEVELS[revision]
    stopped_using = getattr(module, "stopped_using", None)
    if stopped_using is None:
        assert narrowings(path.read_text(encoding="utf-8")) == []
    else:
        levels = {release: level for level, release in RELEASES.items()}
        assert module.oldest_level == levels[stopped_using]
        assert levels[stopped_using] < NEWEST, "a release later, at the earliest"


def test_no_later_revision_may_be_applied_at_a_lower_level_than_an_earlier_one() -> None:
    levels = list(schema.OLDEST_LEVELS.values())
    assert levels == sorted(levels)


@pytest.mark.parametrize(
    ("statement", "is_narrower"),
    [
        ("op.create_table('a', sa.Column('b', sa.Text(), nullable=False))", False),
        ("op.add_column('audit', sa.Column('b', sa.Text(), nullable=True))", False),
        ("op.create_index('ix', 'audit', ['b'])", False),
        ("op.create_table('a')\n    op.create_index('ix', 'a', ['b'], unique=True)", False),
        ("op.add_column('audit', sa.Column('b', sa.Text(), nullable=False, server_default=''))", True),
        ("op.add_column('audit', sa.Column('b', sa.Text()))", True),
        ("op.create_index('ix', 'audit', ['b'], unique=True)", True),
        ("op.drop_column('audit', 'b')", True),
        ("if True:\n        op.rename_table('a', 'b')", True),
        ("op.execute('drop table audit')", True),
    ],
)
def test_what_narrows_is_found(statement: str, is_narrower: bool) -> None:
    assert bool(narrowings(f"def upgrade() -> None:\n    {statement}\n")) == is_narrower


def test_revisions_wait_for_the_lowest_level() -> None:
    assert schema.revision_for(UNTOLD) == "0009"
    assert schema.revision_for(Level(1)) == schema.revision_for(NEWEST) == schema.HEAD
