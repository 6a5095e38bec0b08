"""The matrix as people read it."""

from __future__ import annotations

from tests.interop.matrix import Cell
from tests.interop.table import render


def test_a_page_has_an_aligned_table_and_says_what_failed_is_missing_and_waits() -> None:
    cells = [
        Cell("Springtide", "kcat", "connect", "ok"),
        Cell("Springtide", "kcat", "create", "not in this client"),
        Cell("Springtide", "java-tools", "connect", "missing", "KAFKA_HOME=DIR"),
        Cell("Springtide", "java-tools", "create", "failed", "Timeout: no answer"),
        Cell("Springtide", "kcat", "tls", "ok"),
        Cell("Springtide", "java-tools", "tls", "not compared"),
    ]
    page = render(cells, {"kcat": "1.7.1"})
    assert page.splitlines()[:6] == [
        "| Springtide            | kcat  | java-tools |",
        "| --------------------- | ----- | ---------- |",
        "| connect, ApiVersions  | ok    | missing    |",
        "| create a topic        | -     | failed     |",
        "| TLS                   | ok    | .          |",
        "| share groups, KIP-932 | waits | waits      |",
    ]
    assert "- Springtide: java-tools, create: Timeout: no answer" in page
    assert "- java-tools: KAFKA_HOME=DIR" in page
    assert "- share groups, KIP-932: Springtide's coordinators have none" in page
    assert page.endswith("- kcat: 1.7.1\n")
