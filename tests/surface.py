"""Print the surface of a checkout, one thing a line: calls of REST with each field, commands and options,
settings, metrics, versions of Kafka's APIs. The difference of two checkouts is what came and what went:

    diff <(cd BEFORE && python AFTER/tests/surface.py) <(cd AFTER && python tests/surface.py)

It imports the code of the directory that it is started in.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

PROGRAMS = ("controller", "dataplane", "coordinator", "springtide", "pipeline")


class ParserWalked(Exception):
    """Ends a program that has made its parser."""


def main() -> int:
    root = Path.cwd()
    sys.path.insert(0, str(root))
    document = json.loads((root / "openapi/springtide.json").read_text(encoding="utf-8"))
    lines = {*rest(document), *pages(root), *kafka_apis()}
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for program in PROGRAMS:
        lines |= program_lines(program, project["scripts"][program])
    print("\n".join(sorted(lines)))
    return 0


def rest(document: dict[str, Any]) -> Iterator[str]:
    """Yield each call, each parameter, and each field of its bodies."""
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            if not isinstance(call, dict):
                continue
            name = f"REST {method.upper()} {path}"
            yield name
            for parameter in (*calls.get("parameters", ()), *call.get("parameters", ())):
                found = resolved(document, parameter)
                yield f"{name} {found['in']} {found['name']}"
            yield from (
                f"{name} {line}" for line in body_fields(document, "request", call.get("requestBody", {}))
            )
            for status, answer in call["responses"].items():
                yield f"{name} {status}"
                if status.startswith("2"):
                    yield from (f"{name} {line}" for line in body_fields(document, status, answer))


def body_fields(document: dict[str, Any], where: str, body: dict[str, Any]) -> Iterator[str]:
    for media, content in resolved(document, body).get("content", {}).items():
        yield from (f"{where} {media} {line}" for line in fields(document, content.get("schema", {}), "", ()))


def fields(
    document: dict[str, Any], schema: dict[str, Any], at: str, around: tuple[str, ...]
) -> Iterator[str]:
    """Yield the path of each value in a schema, with its type; a schema within itself once."""
    reference = schema.get("$ref", "")
    if reference in around:
        return
    found, around = resolved(document, schema), (*around, reference) if reference else around
    if "enum" in found or "const" in found:
        yield from (f"{at} = {value}" for value in found.get("enum", [found.get("const")]))
    elif isinstance(found.get("type"), str):
        yield f"{at}: {found['type']}"
    for one in (*found.get("anyOf", ()), *found.get("oneOf", ()), *found.get("allOf", ())):
        yield from fields(document, one, at, around)
    for name, part in found.get("properties", {}).items():
        yield from fields(document, part, f"{at}.{name}", around)
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(found.get(key), dict):
            yield from fields(document, found[key], at + mark, around)


def resolved(document: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        found: Any = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = found
    return node


def pages(root: Path) -> Iterator[str]:
    """Yield rows of the reference pages that docs/site.py makes: settings with their defaults, metrics."""
    spec = spec_from_file_location("site_pages", root / "docs/site.py")
    assert spec is not None and spec.loader is not None
    site = module_from_spec(spec)
    spec.loader.exec_module(site)
    for page in ("configuration", "metrics"):
        heading = ""
        for line in site.REFERENCES[page]().splitlines():
            if line.startswith("#"):
                heading = line.lstrip("# ")
            elif line.startswith("| `"):
                yield " ".join((heading, *re.findall(r"(?<=\| )`[^`]+`(?= \|)", line)))


def kafka_apis() -> Iterator[str]:
    for spec in import_module("springtide.wire.apis").APIS.values():
        for version in range(spec.served_since, spec.version_max + 1):
            yield f"Kafka {spec.api_key.name} {version}"


def program_lines(program: str, start: str) -> set[str]:
    """Return the commands of a program, and the options of each as its help shows them. start: its module and
    function, as it is installed."""
    module, _, function = start.partition(":")
    found: set[str] = set()
    add_subparsers = argparse.ArgumentParser.add_subparsers
    below: dict[argparse.ArgumentParser, Any] = {}

    def noted(parser: argparse.ArgumentParser, **settings: Any) -> Any:
        below[parser] = add_subparsers(parser, **settings)
        return below[parser]

    def walk(name: str, parser: argparse.ArgumentParser) -> None:
        found.add(name)
        for shown in re.findall(r"(?m)^ +(-.*?)(?:  |$)", parser.format_help()):
            found.update(f"{name} {option}" for option in re.findall(r"(?<!\w)--?\w[\w-]*", shown))
        for word, command in below[parser].choices.items() if parser in below else ():
            walk(f"{name} {word}", command)

    def stop(parser: argparse.ArgumentParser, *_: object, **__: object) -> NoReturn:
        walk(program, parser)
        raise ParserWalked

    def run(*words: str) -> None:
        with suppress(ParserWalked):
            getattr(import_module(module), function)(words)

    with (
        patch.object(argparse.ArgumentParser, "add_subparsers", noted),
        patch.object(argparse.ArgumentParser, "parse_args", stop),
    ):
        run()
        for parser in list(below):  # `pipeline` makes the parser of a job when it is named
            for job in below[parser].choices if program == "pipeline" else ():
                run(job)
    return found


if __name__ == "__main__":
    sys.exit(main())
