"""Whether a release can still talk with the one before: its structs beside the stored schema of a level.

What is red: a struct, field or word that is gone; a field of another type; one that is required and was not,
or was not there. A field or word that is new is red, too, until `tolerances.NEW` says since which feature it
is written, or why a release of the older level does not mind it. Once the newest level is frozen, that list
has no stale entry.

    python -m tests.upgrade.contract_lint            compare with all stored levels
    python -m tests.upgrade.contract_lint --write    store the schema of the newest level, once: it is frozen

Exit status: 0 all is as it was, or new and explained; 1 it is not.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from springtide.levels import NEWEST, Feature, Level
from tests.upgrade.contract_schema import schema, structs
from tests.upgrade.tolerances import NEW

STORED = Path(__file__).with_name("contracts")
Schema = Mapping[str, Any]


def broken(stored: Schema, now: Schema) -> list[str]:
    """Return what a release that knows the stored schema can't read, or can't be read by."""
    found: list[str] = []
    for name, before in stored.items():
        if name not in now:
            found.append(f"{name} is gone")
            continue
        after = now[name]
        found += [f"{name} has no word {word!r} any more" for word in _words(before) - _words(after)]
        fields, fields_now = _fields(before), _fields(after)
        for field in fields.keys() - fields_now.keys():
            found.append(f"{name}.{field} is gone")
        for field in fields.keys() & fields_now.keys():
            if _retyped(fields[field], fields_now[field]):
                found.append(f"{name}.{field} was {_shown(fields[field])}, is {_shown(fields_now[field])}")
        required, required_now = (set(each.get("required", ())) for each in (before, after))
        found += [f"{name}.{field} is required, and was not" for field in required_now - required]
        if _rest(before) != _rest(after):
            found.append(f"{name} was {_shown(_rest(before))}, is {_shown(_rest(after))}")
    return sorted(found)


def new(stored: Schema, now: Schema) -> Iterator[str]:
    """Return the fields and words that structs and enumerations of the stored schema did not have."""
    for name in stored.keys() & now.keys():
        before, after = stored[name], now[name]
        for field, kind in _fields(after).items():
            if field not in _fields(before):
                yield f"{name}.{field}"
            else:
                yield from (f"{name}.{field}:{tag}" for tag in _tags(kind) - _tags(_fields(before)[field]))
        yield from (f"{name}:{word}" for word in _words(after) - _words(before))


def unexplained(stored: Schema, now: Schema, level: Level, reasons: Mapping[str, str | Feature]) -> list[str]:
    """Return what is new and may be written at this level although nothing says that the older release does
    not mind."""
    found: list[str] = []
    for name in sorted(new(stored, now)):
        reason = reasons.get(name)
        if reason is None:
            found.append(
                f"{name} is new: name its feature, or why level {level} does not mind it, in tolerances.py"
            )
        elif isinstance(reason, Feature) and reason.since <= level:
            found.append(f"{name} is of the feature {reason.name}, which level {level} already writes")
    return found


def stale(schemas: Mapping[Level, Schema], now: Schema, reasons: Mapping[str, str | Feature]) -> list[str]:
    """Return explanations of what is not new to any stored level."""
    told = {name for stored in schemas.values() for name in new(stored, now)}
    return [f"{name} is explained in tolerances.py and not new" for name in sorted(reasons.keys() - told)]


def stored_schemas() -> dict[Level, Schema]:
    """Return the schema of each level that has been frozen."""
    return {
        Level(int(path.stem)): json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(STORED.glob("*.json"))
    }


def complaints() -> list[str]:
    """Return what is wrong with the structs of this tree."""
    schemas, now = stored_schemas(), schema(structs())
    wrong = stale(schemas, now, NEW) if NEWEST in schemas else []
    for level, stored in schemas.items():
        found = [*broken(stored, now), *unexplained(stored, now, level, NEW)]
        wrong += [f"level {level}: {line}" for line in found]
    return wrong


def _fields(struct: Schema) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = struct.get("properties", {})
    return fields


def _words(kind: Schema) -> set[str]:
    return set(map(str, kind.get("enum", ())))


def _tags(kind: Schema) -> set[str]:
    """Return the tags of a union of structs."""
    return set(kind.get("discriminator", {}).get("mapping", ()))


def _rest(kind: Schema) -> Schema:
    """Return what a schema says beside its fields and words; of an array, all of it. Whether the reader
    refuses fields that it does not know is no matter: an older release writes none."""
    told = {key: value for key, value in kind.items() if key not in {"properties", "required", "enum"}}
    return {key: value for key, value in told.items() if (key, value) != ("additionalProperties", False)}


def _retyped(before: Schema, after: Schema) -> bool:
    """Return whether a field is of another type. A union of tagged structs may have more of them."""
    tags, tags_now = _tags(before), _tags(after)
    if tags and tags <= tags_now:
        before, after = (
            {k: v for k, v in each.items() if k not in {"anyOf", "discriminator"}} for each in (before, after)
        )
    return before != after


def _shown(kind: Schema) -> str:
    return json.dumps(kind, sort_keys=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.upgrade.contract_lint",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--write", action="store_true", help="store the schema of the newest level, once")
    if parser.parse_args().write:
        path = STORED / f"{NEWEST}.json"
        if path.exists():
            print(
                f"{path}: level {NEWEST} is frozen; what is new has a feature of a later level, or a reason"
            )
            return 1
        path.write_text(json.dumps(schema(structs()), indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{path} is written")
        return 0
    wrong = complaints()
    print(*wrong, sep="\n")
    print(f"{len(wrong)} complaints about {len(stored_schemas())} stored levels")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
