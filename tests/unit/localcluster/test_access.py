"""The users of `up --secure`: what is asked of the controller, and where passwords and tokens are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from localcluster.access import Access, RestTokens
from localcluster.rest import ControllerApi


@pytest.fixture
def asked() -> list[tuple[str, str, dict[str, object]]]:
    return []


@pytest.fixture
def api(asked: list[tuple[str, str, dict[str, object]]]) -> Iterator[ControllerApi]:
    """A controller that does all that it is asked."""

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, request.url.path, json.loads(request.content)))
        return httpx.Response(200, json={})

    with httpx.Client(base_url="http://ctl1", transport=httpx.MockTransport(answer)) as client:
        yield ControllerApi(client)


def access_in(folder: Path) -> Access:
    return Access(folder / "clients", "127.0.0.1:9092", folder / "ca.pem")


def test_acls_decide_once_the_users_and_what_they_may_do_are_there(
    api: ControllerApi, asked: list[tuple[str, str, dict[str, object]]], tmp_path: Path
) -> None:
    files = access_in(tmp_path).give(api, "prod")
    assert [(method, path) for method, path, _ in asked] == [
        *(("PUT", f"/clusters/prod/users/{user}") for user in ("operator", "alice", "viewer")),
        ("POST", "/clusters/prod/acls"),
        ("POST", "/clusters/prod/configs:alter"),
    ]
    assert asked[1][2] == {"password": files["alice"].settings["sasl.password"]}
    configs = asked[-1][2]["configs"]
    assert isinstance(configs, dict)
    assert configs["super.users"] == "User:operator"


def test_a_users_files_are_its_owners_only_and_keep_the_password(api: ControllerApi, tmp_path: Path) -> None:
    access = access_in(tmp_path)
    files = access.add_user(api, "prod", "alice")
    password = files.settings["sasl.password"]
    assert len(password) >= 20
    assert {file.stat().st_mode & 0o777 for file in (files.librdkafka, files.java)} == {0o600}
    assert f'username="alice" password="{password}";' in files.java.read_text()
    moved = Access(access.directory, "127.0.0.1:19092", access.ca).add_user(api, "prod", "alice")
    assert (moved.settings["sasl.password"], moved.settings["bootstrap.servers"]) == (
        password,
        "127.0.0.1:19092",
    )


def test_tokens_are_their_owners_only_and_stay(tmp_path: Path) -> None:
    tokens = RestTokens(tmp_path / "clients")
    files = list((tmp_path / "clients").iterdir())
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert tokens.header.read_text() == f"Authorization: Bearer {tokens.read()}\n"
    assert RestTokens(tmp_path / "clients").read() == tokens.read()
    flags = (*tokens.controller_flags, *tokens.node_flags)
    assert not any(tokens.read() in flag for flag in flags)
