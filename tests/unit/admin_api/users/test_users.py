"""Users over REST: passwords go in and never come out."""

from __future__ import annotations

import logging
from base64 import b64encode
from typing import Any

import pytest
import sqlalchemy as sa

from admin_api.users.models import MECHANISMS
from controller.database.sql import create_sql_engine
from controller.database.tables import metadata
from springtide.security.sasl.credentials import credential_from_password
from tests.kit.admin_api.rest import TOKENS, Rest, ask, controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

PATH = "/clusters/prod/users"
PASSWORD = "correct horse battery staple"
BOTH = [{"mechanism": f"SCRAM-SHA-{bits}", "iterations": 4096} for bits in (256, 512)]


async def put(rest: Rest, user: str = "billing", *, status: int = 201, **fields: Any) -> Any:
    response = await rest.client.put(f"{PATH}/{user}", json={"password": PASSWORD} | fields)
    assert response.status_code == status, response.text
    assert PASSWORD not in response.text
    return response


async def test_a_user_gets_salted_secrets_of_both_mechanisms(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        created = await put(rest)
        assert created.headers["location"] == f"{PATH}/billing"
        shown = created.json()
        assert (shown["user"], shown["mechanisms"]) == ("billing", BOTH)
        secrets = rest.engine.cluster("prod").image.users["billing"].scram
        for mechanism, secret in zip(MECHANISMS, secrets, strict=True):
            derived = credential_from_password(
                mechanism, PASSWORD, salt=secret.salt, iterations=secret.iterations
            )
            assert (secret.stored_key, secret.server_key) == (derived.stored_key, derived.server_key)
        assert len({secret.salt for secret in secrets}) == 2
        looked_at = await rest.client.get(f"{PATH}/billing")
        assert looked_at.json() == shown
        assert looked_at.headers["etag"] == created.headers["etag"]
        assert "salt" not in looked_at.text
        assert "key" not in looked_at.text


async def test_the_key_of_unknown_users_salts_comes_with_the_first_user_and_is_never_shown(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await put(rest, "alice")
        key = rest.engine.cluster("prod").image.unknown_users
        assert key is not None and len(key.scram[0].server_key) == 32
        await put(rest, "bob")
        assert (await rest.client.delete(f"{PATH}/alice")).status_code == 200
        assert rest.engine.cluster("prod").image.unknown_users == key
        listed = (await rest.client.get(PATH)).json()["items"]
        assert [item["user"] for item in listed] == ["bob"]
        reserved = f"{PATH}/%3Cunknown%3E"
        assert problem(await rest.client.get(reserved)) == (404, "user_not_found")
        refused = await rest.client.put(reserved, json={"password": PASSWORD})
        assert (problem(refused), pointers(refused)) == ((422, "invalid_user"), ["/user"])
        told = await rest.recorded(entity="user", kind="change")
        assert {row["entity_id"] for row in told} == {"alice", "bob"}
    async with controller(zookeeper, name="c2") as later:
        assert later.engine.cluster("prod").image.unknown_users == key


async def test_a_new_password_replaces_the_secrets_of_all_mechanisms(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await put(rest)
        before = rest.engine.cluster("prod").image.users["billing"]
        changed = await put(rest, status=200, mechanisms=["SCRAM-SHA-512"], iterations=8192)
        assert changed.json()["mechanisms"] == [{"mechanism": "SCRAM-SHA-512", "iterations": 8192}]
        (secret,) = rest.engine.cluster("prod").image.users["billing"].scram
        assert secret.salt not in {one.salt for one in before.scram}


async def test_a_password_is_kept_nowhere(
    zookeeper: MemoryZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    sql = create_sql_engine("sqlite://")
    with caplog.at_level(logging.DEBUG):
        async with controller(zookeeper, sql_engine=sql) as rest:
            await rest.form()
            keyed = {"Idempotency-Key": "k1"}
            for _ in range(2):
                body = {"password": PASSWORD, "reason": "new"}
                response = await rest.client.put(f"{PATH}/billing", json=body, headers=keyed)
                assert response.is_success
                assert "idempotency-replayed" not in response.headers
            for wrong in (
                {"password": PASSWORD, "iterations": 1},
                {"password": PASSWORD, "passwort": PASSWORD},
            ):
                refused = await rest.client.put(f"{PATH}/billing", json=wrong)
                assert problem(refused) == (422, "invalid_request")
                assert PASSWORD not in refused.text
            impossible = await rest.client.put(f"{PATH}/{'x' * 300}", json={"password": PASSWORD})
            assert problem(impossible) == (422, "invalid_user")
            rows = await rest.recorded()
            assert {"put_user", "user_altered"} <= {row["cause"] for row in rows}
            secrets = rest.engine.cluster("prod").image.users["billing"].scram
            keys = [b64encode(secret.stored_key).decode() for secret in secrets]
            hidden_texts = [PASSWORD, *keys, *(secret.salt.decode() for secret in secrets)]
            with sql.connect() as connection:
                stored = str([connection.execute(sa.select(table)).all() for table in metadata.sorted_tables])
    for hidden in hidden_texts:
        assert hidden not in stored
        assert hidden not in str(rows)
        assert hidden not in caplog.text


@pytest.mark.parametrize(
    ("user", "fields", "where"),
    [
        ("billing", {"password": ""}, "/password"),
        ("billing", {"password": None}, "/password"),
        ("billing", {"password": "x" * 1_001}, "/password"),
        ("billing", {"mechanisms": []}, "/mechanisms"),
        ("billing", {"mechanisms": ["PLAIN"]}, "/mechanisms/0"),
        ("billing", {"iterations": 4_095}, "/iterations"),
        ("billing", {"iterations": 16_385}, "/iterations"),
        ("ANONYMOUS", {}, "/user"),
        ("a%0Ab", {}, "/user"),
    ],
)
async def test_what_is_no_user_or_password_is_refused(
    zookeeper: MemoryZooKeeper, user: str, fields: dict[str, Any], where: str
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        refused = await rest.client.put(f"{PATH}/{user}", json={"password": PASSWORD} | fields)
        assert refused.status_code == 422
        assert pointers(refused) == [where]
        assert rest.engine.cluster("prod").image.users == {}


async def test_users_are_listed_by_name_and_page(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        for user in ("b", "a%2Fb", "c", "svc-1"):
            await put(rest, user)
        found: list[str] = []
        query: dict[str, Any] = {"limit": 3}
        while True:
            page = (await rest.client.get(PATH, params=query)).json()
            found += [item["user"] for item in page["items"]]
            if page["next_page_token"] is None:
                break
            query["page_token"] = page["next_page_token"]
        assert found == ["a/b", "b", "c", "svc-1"]
        some = (await rest.client.get(PATH, params={"prefix": "svc-"})).json()["items"]
        assert [item["user"] for item in some] == ["svc-1"]


async def test_a_user_that_is_deleted_is_gone(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        created = await put(rest)
        tried = await rest.client.delete(f"{PATH}/billing", params={"dry_run": "true"})
        assert tried.json()["mechanisms"] == BOTH
        gone = await rest.client.delete(f"{PATH}/billing", params={"reason": "left"})
        assert gone.json() == created.json()
        for method in ("GET", "DELETE"):
            assert problem(await rest.client.request(method, f"{PATH}/billing")) == (404, "user_not_found")
        (row,) = [row for row in await rest.recorded(entity="user", kind="change") if row["reason"] == "left"]
        assert row["after"] is None


async def test_a_change_that_was_decided_on_another_state_is_refused(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        etag = (await put(rest)).headers["etag"]
        condition = {"If-Match": etag}
        done = await rest.client.put(f"{PATH}/billing", json={"password": PASSWORD}, headers=condition)
        assert done.status_code == 200
        for method, body in (("PUT", {"password": PASSWORD}), ("DELETE", None)):
            refused = await rest.client.request(method, f"{PATH}/billing", json=body, headers=condition)
            assert problem(refused) == (412, "precondition_failed")


async def test_viewers_see_no_users_and_only_admins_change_them(zookeeper: MemoryZooKeeper) -> None:
    user, dry_run = f"{PATH}/billing", {"dry_run": "true"}
    body = {"password": PASSWORD}
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await rest.form()
        assert problem(await ask(rest, "PUT", user, "operator", json=body)) == (403, "forbidden")
        assert (await ask(rest, "PUT", user, "admin", json=body)).status_code == 201
        for method, path, options in (
            ("GET", PATH, {}),
            ("GET", user, {}),
            ("PUT", user, {"params": dry_run, "json": body}),
            ("DELETE", user, {"params": dry_run}),
        ):
            assert problem(await ask(rest, method, path, "viewer", **options)) == (403, "forbidden")
            assert (await ask(rest, method, path, "operator", **options)).status_code == 200
        assert problem(await ask(rest, "DELETE", user, "operator")) == (403, "forbidden")
        assert (await ask(rest, "DELETE", user, "admin")).status_code == 200
