"""What calls itself pure is held to it: each folder `core`, and modules elsewhere whose docstrings say so.

The contract follows imports through other modules of ours; `lint-imports` checks it.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LINTER: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]
(CONTRACT,) = (c for c in LINTER["contracts"] if c["name"].startswith("What says that it is pure "))
#: What a decision that depends on its arguments alone has no use for.
IMPURE = {"time", "random", "os", "pathlib", "threading", "socket", "logging", "trio", "anyio", "asyncio"}


def claims() -> set[str]:
    """Modules, and packages as a whole, whose docstring says that they are pure."""
    found = set()
    for package in LINTER["root_packages"]:
        for path in (ROOT / package).rglob("*.py"):
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            if re.search(r"\bpure\b", docstring, re.IGNORECASE):
                parts = path.relative_to(ROOT).with_suffix("").parts
                found.add(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


def is_within(module: str, packages: set[str]) -> bool:
    """`*` in a package's name stands for one part, as in the contract."""
    parts = module.split(".")
    around = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
    return any(
        re.fullmatch(package.replace(".", r"\.").replace("*", r"\w+"), one)
        for package in packages
        for one in around
    )


def test_every_folder_named_core_is_under_the_contract() -> None:
    under_contract = {name for name in CONTRACT["source_modules"] if "*" in name}
    folders = [
        path.relative_to(ROOT)
        for package in LINTER["root_packages"]
        for path in (ROOT / package).rglob("core")
    ]
    assert folders
    assert [path for path in folders if not is_within(".".join(path.parts), under_contract)] == []


def test_every_module_that_says_it_is_pure_is_under_the_contract() -> None:
    under_contract = set(CONTRACT["source_modules"])
    assert sorted(claim for claim in claims() if not is_within(claim, under_contract)) == []


def test_every_module_under_the_contract_says_that_it_is_pure() -> None:
    named = {name for name in CONTRACT["source_modules"] if "*" not in name}
    assert sorted(named - claims()) == []


def test_the_contract_forbids_what_is_impure_in_the_modules_that_are_imported_too() -> None:
    assert set(CONTRACT["forbidden_modules"]) >= IMPURE
    assert not CONTRACT.get("allow_indirect_imports", False)
    assert "ignore_imports" not in CONTRACT
