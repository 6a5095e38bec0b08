from __future__ import annotations

import json
import re

import pytest

from admin_api.http.problems import MEDIA_TYPE
from admin_api.openapi.document import PATH, build_document, render
from admin_api.openapi.schema import TAGS
from tests.kit.admin_api.document import parameters_of, resolved
from tests.kit.admin_api.rest import controller
from tests.kit.memory.zookeeper import MemoryZooKeeper

DOCUMENT = build_document()


def test_the_committed_document_is_what_the_code_says() -> None:
    written = PATH.read_text(encoding="utf-8")
    assert written == render(DOCUMENT), "run: python -m admin_api.openapi --write"


def test_every_operation_is_named_tagged_and_says_what_can_go_wrong() -> None:
    document = DOCUMENT
    known = {tag["name"] for tag in TAGS}
    seen: set[str] = set()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation["operationId"] not in seen
            seen.add(operation["operationId"])
            assert set(operation["tags"]) <= known, path
            assert operation["summary"]
            if path.startswith("/internal/"):
                noun = "Coordinators" if "/coordinators/" in path else "Brokers"
                assert operation["tags"] == [f"{noun} (internal)"]
                continue
            for status, answer in operation["responses"].items():
                response = resolved(document, answer)
                if int(status) >= 300:
                    assert list(response["content"]) == [MEDIA_TYPE], (path, status)
                elif status == "204":
                    assert "content" not in response, path
                elif path.endswith("/events"):
                    assert list(response["content"]) == ["text/event-stream"], path
                elif path != "/metrics":
                    assert "schema" in response["content"]["application/json"], (path, status)
    assert "HTTPValidationError" not in json.dumps(document)


def test_what_many_operations_share_is_written_once() -> None:
    written = json.dumps(DOCUMENT["paths"])
    assert '"x-problem-codes"' not in written
    for kind in ("responses", "parameters", "headers"):
        for name, part in DOCUMENT["components"][kind].items():
            assert f'"#/components/{kind}/{name}"' in written, name
            assert "$ref" not in part
    assert PATH.stat().st_size < 1_400_000


def test_writes_show_dry_run_idempotency_key_and_an_example() -> None:
    document = DOCUMENT
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if method == "get" or path.startswith("/internal/"):
                continue
            names = {one["name"].lower() for one in parameters_of(document, operation)}
            assert {"dry_run", "idempotency-key", "x-actor"} <= names
            if method == "delete":
                continue
            media = operation["requestBody"]["content"]["application/json"]
            text = json.dumps(media) + json.dumps(document["components"]["schemas"])
            assert "example" in text


@pytest.mark.anyio
async def test_swagger_ui_is_served_without_any_other_host(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        page = await rest.client.get("/docs", headers={"Accept": "text/html"})
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert re.findall(r"https?://", page.text) == []
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assets = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert len(assets) == 6
        assets.remove("/")
        for asset in assets:
            served = await rest.client.get(asset)
            assert served.status_code == 200, asset
            again = await rest.client.get(asset, headers={"If-None-Match": served.headers["etag"]})
            assert again.status_code == 304
        bundle = (await rest.client.get("/docs/swagger-ui-bundle.js")).text
        assert re.search(r'PACKAGE_VERSION:"5\.', bundle), "older Swagger UI can't render OpenAPI 3.1"
        start = (await rest.client.get("/docs/start.js")).text
        assert "validatorUrl: null" in start
        served_document = await rest.client.get("/openapi.json")
        assert served_document.json() == DOCUMENT
        assert served_document.json()["openapi"].startswith("3.1")
