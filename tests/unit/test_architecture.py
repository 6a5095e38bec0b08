"""The map in ARCHITECTURE.md names every folder of the product and every arrow between them, and no other.

An arrow is an import. That no arrow breaks an import contract, `lint-imports` checks on the same graph.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
PACKAGES = (*LINTER["root_packages"], "migrations")

Arrows = dict[str, set[str]]


@pytest.fixture(scope="module")
def drawn() -> Arrows:
    """The map: a line `folder  what it is`, and below it `-> folders that it imports`, by their last name
    alone if the same package has such a folder or no other package has one; `folder/*` stands for its folders
    that have no line."""
    block = re.search(r"^```map\n(.*?)^```", (ROOT / "ARCHITECTURE.md").read_text("utf-8"), re.M | re.S)
    assert block is not None, "ARCHITECTURE.md has no map"
    named: dict[str, list[str]] = {}
    room = ""
    for line in block.group(1).splitlines():
        if line.startswith(" "):
            named[room] += line.removeprefix("    -> ").split()
        else:
            room = line.split()[0]
            assert named.setdefault(room, []) == [], f"{room} has two lines"

    def whole(room: str, name: str) -> str:
        sibling = f"{room.partition('/')[0]}/{name}"
        alike = [other for other in named if other.endswith(f"/{name}")]
        return sibling if sibling in named else alike[0] if len(alike) == 1 else name

    return {room: {whole(room, name) for name in names} for room, names in named.items()}


def room_of(folder: Path, drawn: Arrows) -> str | None:
    """The map's line for a folder: its own, or that of the folder around it."""
    name = folder.as_posix()
    around = f"{folder.parts[0]}/*"
    return next((line for line in (name, f"{name}/*", around) if line in drawn), None)


def test_the_map_names_every_folder_and_only_folders_that_exist(drawn: Arrows) -> None:
    folders = [Path(package) for package in PACKAGES]
    for package in PACKAGES:
        inits = sorted((ROOT / package).glob("*/__init__.py"))
        folders += [init.parent.relative_to(ROOT) for init in inits]
    found = {folder.as_posix(): room_of(folder, drawn) for folder in folders}
    assert [name for name, room in found.items() if room is None] == []
    assert set(found.values()) == set(drawn)


def test_the_arrows_of_the_map_are_the_imports_of_the_code(drawn: Arrows) -> None:
    def room(module: str) -> str:
        path = Path(*module.split(".")[:2])
        found = room_of(path if (ROOT / path).is_dir() else Path(path.parts[0]), drawn)
        assert found is not None, module
        return found

    graph = grimp.build_graph(*PACKAGES)
    imported: Arrows = {name: set() for name in drawn}
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            if room(module) != room(other):
                imported[room(module)].add(room(other))
    assert drawn == imported


def test_no_two_public_classes_have_one_name() -> None:
    """The OpenAPI document names its schemas after them, and a reader searches for them. Kafka's messages
    have Kafka's names, and those that are written by hand as well have two classes."""
    modules = (
        path
        for package in LINTER["root_packages"]
        for path in (ROOT / package).rglob("*.py")
        if path != ROOT / "springtide/wire/messages.py"
    )
    classes = Counter(
        name for path in modules for name in re.findall(r"(?m)^class ([A-Z]\w*)", path.read_text("utf-8"))
    )
    assert [name for name, count in classes.items() if count > 1] == []


def test_no_two_packages_import_each_other() -> None:
    graph = grimp.build_graph(*PACKAGES)
    arrows = {
        (module.partition(".")[0], other.partition(".")[0])
        for module in graph.modules
        for other in graph.find_modules_directly_imported_by(module)
    }
    assert len(arrows) > len(PACKAGES)
    assert [(one, other) for one, other in arrows if one < other and (other, one) in arrows] == []
