"""Make pages of the site from the code and from the documents beside `docs/`, so that they can't drift.

MkDocs calls `on_files` and `on_page_markdown` (https://www.mkdocs.org/dev-guide/plugins/#events).
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from springtide.wire.apis import ApiSpec

ROOT = Path(__file__).parents[1]
BESIDE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "tests/README.md": "tests.md",
    "packaging/README.md": "shipping.md",
    "packaging/kubernetes/README.md": "kubernetes.md",
}
METRIC_MAKERS = {
    "counter",
    "gauge",
    "Counter",
    "Gauge",
    "Histogram",
    "CounterMetricFamily",
    "GaugeMetricFamily",
    "HistogramMetricFamily",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {name: (ROOT / source).read_text(encoding="utf-8") for source, name in BESIDE.items()}
    pages |= {f"reference/{name}.md": make() for name, make in REFERENCES.items()}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point links between documents at where their pages are on the site."""
    for source, name in BESIDE.items():
        markdown = re.sub(rf"\]\((\.\./)*{re.escape(source)}", f"]({name}", markdown)
    return re.sub(r"\]\((\.\./)*docs/", "](", markdown)


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table; a bar in a cell is escaped."""
    lines = [tuple(head), *(tuple(str(cell) for cell in row) for row in rows)]
    escaped = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([escaped[0], "|" + "---|" * len(lines[0]), *escaped[1:]]) + "\n"


def rest() -> str:
    """Return every path and method, from the committed OpenAPI document."""
    document = json.loads((ROOT / "openapi/springtide.json").read_text(encoding="utf-8"))
    rows = (
        (f"`{method.upper()} {path}`", call.get("summary", ""))
        for path, calls in document["paths"].items()
        for method, call in calls.items()
        if isinstance(call, dict)
    )
    return "# REST\n\nA controller shows this interface with examples at `/docs`.\n\n" + table(
        ("call", "what it does"), rows
    )


def commands() -> str:
    """Return every command of `springtide`."""
    from springtide.cli.catalogue import COMMANDS  # noqa: PLC0415 - each page imports what it shows

    rows = ((f"`springtide {' '.join(one.words)}`", one.summary) for one in COMMANDS)
    return "# Commands\n\nEach has `--help` with examples.\n\n" + table(("command", "what it does"), rows)


def configuration() -> str:
    """Return the settings of all processes, topics and clusters, and what becomes of each that Kafka has."""
    from controller.core.settings_table import (  # noqa: PLC0415
        BROKER_SETTINGS,
        CLUSTER_SETTINGS,
        GROUP_SETTINGS,
        TOPIC_SETTINGS,
        Standing,
    )
    from coordinator.config import COORDINATOR_KEYS  # noqa: PLC0415
    from dataplane.shell.config import BROKER_KEYS  # noqa: PLC0415

    def keys(known: dict[str, Any]) -> str:
        rows = ((f"`{name}`", f"`{key.default}`", key.text) for name, key in known.items())
        return table(("name", "default", "meaning"), rows)

    def settings(known: dict[str, Any]) -> str:
        rows = (
            (
                f"`{name}`",
                one.standing.value,
                "" if one.default is None else f"`{one.default}`" if one.default else "empty",
                one.hint or "",
            )
            for standing in Standing
            for name, one in sorted(known.items())
            if one.standing is standing
        )
        return table(("name", "what becomes of it", "default", "note"), rows)

    return (
        "# Configuration\n\nNames are Kafka's, as of Kafka 4.4. Each is honoured, or kept without effect, or "
        "taken at its default only, or refused; the note says why. Any can be unset. A name that is not here "
        "is refused.\n\n"
        "## Topics\n\n"
        + settings(TOPIC_SETTINGS)
        + "\n## Clusters\n\n"
        + settings(CLUSTER_SETTINGS)
        + "\n## A single broker\n\n"
        + "All others of a cluster are refused here, or taken at their defaults only.\n\n"
        + settings({name: one for name, one in BROKER_SETTINGS.items() if one.is_honoured})
        + "\n## Groups of the `consumer` protocol\n\n"
        + settings(GROUP_SETTINGS)
        + "\n## When a broker starts\n\n"
        + "`dataplane serve --config NAME=VALUE`, or `--config-file` with a server.properties.\n\n"
        + keys(BROKER_KEYS)
        + "\n## When a coordinator starts\n\n"
        + "`coordinator serve --config NAME=VALUE`, or `--config-file`.\n\n"
        + keys(COORDINATOR_KEYS)
    )


def metrics() -> str:
    """Return every metric: each is made by a call with its name and its text as constants."""
    found = {
        (name, plane, text)
        for plane in ("dataplane", "coordinator", "controller", "admin_api", "springtide")
        for path in sorted((ROOT / plane).rglob("*.py"))
        for name, text in _metrics_of(path)
    }
    rows = ((f"`{name}`", plane, text) for name, plane, text in sorted(found))
    return "# Metrics\n\nKafka's own have the JMX exporter's spelling of its MBeans.\n\n" + table(
        ("name", "reported by", "meaning"), rows
    )


def _metrics_of(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or len(node.args) < 2:
            continue
        maker = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        name, text = (one.value if isinstance(one, ast.Constant) else None for one in node.args[:2])
        if maker in METRIC_MAKERS and isinstance(name, str) and isinstance(text, str):
            yield name, text


def kafka_apis() -> str:
    """Return the APIs of the Kafka protocol that are served, beside those of Kafka's own brokers."""
    return "# Kafka APIs\n\nWhat brokers and coordinators advertise to clients.\n\n" + kafka_api_table()


def kafka_api_table() -> str:
    """Return the table that docs/applications.md shows, too. kio's definitions are those of Kafka 4.3."""
    from kio.schema.index import schema_name_map  # noqa: PLC0415

    from springtide.wire.apis import APIS, UNSTABLE_VERSIONS  # noqa: PLC0415

    def versions(first: int, last: int) -> str:
        return f"{first}-{last}" if first < last else str(last)

    def row(spec: ApiSpec) -> tuple[object, ...]:
        defined = set(schema_name_map[spec.api_key.name.lower()]) - UNSTABLE_VERSIONS.get(spec.api_key, set())
        ours, theirs = versions(spec.served_since, spec.version_max), versions(min(defined), max(defined))
        return spec.api_key.kafka_name, int(spec.api_key), ours, theirs, spec.release

    return table(("API", "key", "versions", "Kafka 4.3", "since"), map(row, APIS.values()))


REFERENCES: dict[str, Callable[[], str]] = {
    "rest": rest,
    "commands": commands,
    "configuration": configuration,
    "metrics": metrics,
    "kafka-apis": kafka_apis,
}
