from __future__ import annotations

import re
from importlib.resources import files
from typing import get_args

import pytest

from controller.operations.model import Spec
from tests.kit.admin_api.rest import controller
from tests.kit.memory.zookeeper import MemoryZooKeeper

ASSETS = {
    file.name: file.read_text(encoding="utf-8")
    for file in (files("admin_api.console") / "assets").iterdir()
    if not file.name.endswith(".svg")
}


@pytest.mark.anyio
async def test_the_page_and_all_that_it_is_made_of_come_from_here(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        page = await rest.client.get("/", headers={"Accept": "text/html"})
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
        assert "unsafe" not in policy
        wanted = re.findall(r'(?:src|href)="(/console/[^"]+)"', page.text)
        seen: set[str] = set()
        while wanted:
            path = wanted.pop()
            if path in seen:
                continue
            seen.add(path)
            served = await rest.client.get(path)
            assert served.status_code == 200, path
            again = await rest.client.get(path, headers={"If-None-Match": served.headers["etag"]})
            assert (again.status_code, again.headers["cache-control"]) == (304, "no-cache")
            wanted += [f"/console/{name}" for name in re.findall(r'from "\./([a-z]+\.js)"', served.text)]
        assert seen == {f"/console/{name}" for name in ASSETS if name != "index.html"} | {"/console/icon.svg"}


@pytest.mark.parametrize("name", sorted(ASSETS))
def test_no_asset_names_another_host_or_turns_text_into_markup(name: str) -> None:
    text = ASSETS[name].replace('const SVG = "http://www.w3.org/2000/svg";', "")
    assert re.findall(r"https?://|//cdn|@import|url\(", text) == []
    assert (
        re.findall(r"innerHTML\s*=[^=]|outerHTML\s*=[^=]|insertAdjacentHTML|document\.write|eval\(", text)
        == []
    )
    assert re.findall(r"<script>|<style|\bon[a-z]+=\"|style=\"", text) == [], (
        "the policy forbids inline parts"
    )


def test_every_kind_of_operation_has_a_title() -> None:
    kinds = {spec.__struct_config__.tag for spec in get_args(Spec)}
    assert set(re.findall(r'operation\.kind === "([a-z_]+)"', ASSETS["work.js"])) == kinds
