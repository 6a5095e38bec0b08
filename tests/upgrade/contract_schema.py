"""Prints the JSON schema of every struct that crosses between processes or is stored, as one document.

It imports nothing of the tests: an interpreter of another release runs it as a file and prints its own.

    build/last-release/bin/python tests/upgrade/contract_schema.py
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

PACKAGES = ("springtide.contract",)
"""All of their structs."""
#: A module's structs, or one of them, with all that it consists of.
MODULES = (
    # ZooKeeper
    "controller.core.records",
    "controller.core.witnesses",
    "controller.shell.rows",
    "controller.shell.security_rows",
    "controller.shell.leadership",
    # SQL, as JSON in columns
    "controller.core.planning.goals",
    "controller.core.planning.plan",
    "controller.database.rows",
    "controller.operations.model",
    "controller.webhooks.core.target:Kept",
    # a broker's disk
    "dataplane.storage.manifest",
    "dataplane.storage.quarantine",
    "dataplane.storage.round_file",
    "dataplane.storage.seal",
    # tables and checkpoints
    "pipeline.land.documents",
    "pipeline.land.latest",
    "pipeline.salvage.merge_plan",
    "pipeline.sink.opening",
)
NEVER_DECODED = {"MemberRecord"}
"""Its row's registration is of the kind that the path says, and has a schema of its own."""
UNSAID = {"title", "description", "examples", "default"}
"""What a reader of the other release does not depend on. A default that is another would be: it is read where
the field is absent, but a row of the older release has the older one's meaning, which no schema tells."""


def structs() -> Iterator[type[msgspec.Struct]]:
    """Return the structs that these modules define, in the order of their names."""
    names = [*MODULES]
    for package in PACKAGES:
        folder = importlib.import_module(package)
        names += [f"{package}.{found.name}" for found in pkgutil.iter_modules(folder.__path__)]
    for name in sorted(names):
        where, _, only = name.partition(":")
        for _, found in sorted(inspect.getmembers(importlib.import_module(where), inspect.isclass)):
            if not issubclass(found, msgspec.Struct) or found.__module__ != where:
                continue
            if found.__name__ == only if only else found.__name__ not in NEVER_DECODED:
                yield found


def schema(types: Iterable[type[msgspec.Struct]]) -> dict[str, Any]:
    """Return the structs and enumerations by name, with all that they consist of."""
    _, components = msgspec.json.schema_components(
        list(types), schema_hook=_of_other_types, ref_template="{name}"
    )
    return {name: _without(found) for name, found in sorted(components.items())}


def _of_other_types(kind: type) -> dict[str, Any]:
    return {"type": f"of {kind.__name__}"}


def _without(found: Any) -> Any:
    """Return a schema without what it says for people. Properties are kept whatever their names are."""
    if isinstance(found, list):
        return [_without(each) for each in found]
    if not isinstance(found, dict):
        return found
    return {
        name: {key: _without(value) for key, value in each.items()}
        if name == "properties"
        else _without(each)
        for name, each in found.items()
        if name not in UNSAID
    }


if __name__ == "__main__":
    json.dump(schema(structs()), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")
