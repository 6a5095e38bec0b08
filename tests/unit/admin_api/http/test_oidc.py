"""Tokens of an OpenID issuer: which role they have, how keys are read, and what is refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from admin_api.http.oidc import (
    PAUSE_MS,
    REFRESH_MS,
    ROLES_MAX,
    OidcIssuer,
    OidcRules,
    fetch_jwks_from,
    judge,
)
from admin_api.http.tokens import Principal, Role
from admin_api.issuer import read_issuer
from controller.config import ConfigError, load_config
from springtide.security.sasl.oauthbearer import TokenFault, TokenRefused
from springtide.security.sasl.tokens import JWKS_BYTES_MAX, parse_jwks
from tests.kit.admin_api.rest import SECRETS, TOKENS, controller, problem
from tests.kit.clocks import VirtualClock
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

ISSUER = "https://idp.example"
KEY, NEWER = (ECKey.generate_key("P-256", {"kid": kid}) for kid in ("first", "second"))
ROLES = {"admins": Role.ADMIN, "ops": Role.OPERATOR, "all": Role.VIEWER}
RULES = OidcRules.of(
    issuer=ISSUER, audience="springtide", name_claim="email", role_claim="groups", roles=ROLES
)
CONFIG = {
    "oidc_issuer": ISSUER,
    "oidc_audience": "springtide",
    "oidc_jwks": "https://idp.example/keys",
    "oidc_roles": "admins=admin, a=b=viewer",
}


def document(*keys: ECKey) -> bytes:
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode()


def token(*groups: str, key: ECKey = KEY, now_s: int = 0, **claims: Any) -> str:
    told = {"iss": ISSUER, "aud": "springtide", "email": "alice@example.com", "exp": now_s + 600}
    return jwt.encode({"alg": "ES256", "kid": key.kid}, told | {"groups": list(groups)} | claims, key)


class Keys:
    """What the issuer answers when it is asked for its keys, and how often it was."""

    def __init__(self, answer: bytes | Exception) -> None:
        self.answer = answer
        self.asked = 0

    async def __call__(self) -> bytes:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_token_has_the_highest_role_that_its_claim_gives() -> None:
    keys = parse_jwks(document(KEY))
    for groups, role in (
        (("all",), Role.VIEWER),
        (("all", "ops"), Role.OPERATOR),
        (("all", "admins", "ops"), Role.ADMIN),
    ):
        held = judge(token(*groups), keys, RULES, wall_ms=0)
        assert held == Principal("alice@example.com", role)
    assert judge(token("others"), keys, RULES, wall_ms=0) == TokenRefused(TokenFault.SCOPE, "all")


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (token("admins", exp=-60), TokenFault.EXPIRED),
        (token("admins", aud="other"), TokenFault.AUDIENCE),
        (token("admins", iss="https://evil.example"), TokenFault.ISSUER),
        (token("admins", key=NEWER), TokenFault.UNKNOWN_KEY),
        (token("admins", email="controller"), TokenFault.PRINCIPAL),
        (token("admins", email="a b"), TokenFault.PRINCIPAL),
        (token("admins", email=7), TokenFault.PRINCIPAL),
        (token("admins")[:-4] + "AAAA", TokenFault.SIGNATURE),
        ("no.jwt.token", TokenFault.MALFORMED),
    ],
)
def test_a_token_that_is_not_for_us_is_refused(given: str, fault: TokenFault) -> None:
    verdict = judge(given, parse_jwks(document(KEY)), RULES, wall_ms=0)
    assert isinstance(verdict, TokenRefused) and verdict.fault is fault


def test_brokers_have_no_such_tokens_and_roles_are_few() -> None:
    for roles in ({}, {"b": Role.BROKER}, {str(number): Role.VIEWER for number in range(ROLES_MAX + 1)}):
        with pytest.raises(ValueError, match="values have one of the roles viewer, operator, admin"):
            OidcRules.of(issuer=ISSUER, audience="a", name_claim="sub", role_claim="roles", roles=roles)


async def test_keys_are_read_again_when_one_is_missing_but_not_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, keys = VirtualClock(), Keys(OSError("no route"))
    issuer = OidcIssuer(RULES, keys, clock)
    now_s = clock.now_wall_ms() // 1000
    first, second = (token("ops", key=key, now_s=now_s) for key in (KEY, NEWER))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(issuer.run)
        await clock.sleep_ms(PAUSE_MS * 2 + 1)
        assert issuer.holder_of(first) == "the keys of its issuer are not known yet"
        assert (keys.asked, caplog.text.count("jwks_not_read")) == (3, 1)
        keys.answer = document(KEY)
        await clock.sleep_ms(PAUSE_MS)
        assert issuer.holder_of(first) == Principal("alice@example.com", Role.OPERATOR)
        keys.answer = document(KEY, NEWER)
        for _ in range(3):
            assert issuer.holder_of(second) == TokenFault.UNKNOWN_KEY.value
        await clock.sleep_ms(1)
        assert keys.asked == 4, "a stranger's tokens do not make us ask at once"
        await clock.sleep_ms(PAUSE_MS)
        assert issuer.holder_of(second) == Principal("alice@example.com", Role.OPERATOR)
        keys.answer = b"nonsense"
        await clock.sleep_ms(REFRESH_MS)
        assert "jwks_not_read cause=JwksInvalid" in caplog.messages[-1]
        assert isinstance(issuer.holder_of(second), Principal), "the keys before stay in use"
        tasks.cancel_scope.cancel()


async def test_the_interface_takes_them_beside_tokens_of_its_own(zookeeper: MemoryZooKeeper) -> None:
    clock = VirtualClock()
    issuer = OidcIssuer(RULES, Keys(document(KEY)), clock)
    now_s = clock.now_wall_ms() // 1000
    async with (
        controller(zookeeper, tokens=TOKENS, issuer=issuer) as rest,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(issuer.run)
        await rest.clock.sleep_ms(1)

        async def create(bearer: str) -> httpx.Response:
            headers = {"Authorization": f"Bearer {bearer}"}
            return await rest.client.post("/clusters", json={"name": "prod"}, headers=headers)

        assert problem(await create(token("all", now_s=now_s))) == (403, "forbidden")
        refused = await create(token("others", now_s=now_s))
        assert problem(refused) == (401, "unauthenticated")
        assert "no value of its role claim has a role here" in refused.json()["detail"]
        assert (await create(token("ops", now_s=now_s))).status_code == 201
        assert (await create(SECRETS["operator"])).status_code == 409
        await rest.outbox.flush()
        rows = await rest.client.get(
            "/audit?kind=request", headers={"Authorization": f"Bearer {SECRETS['viewer']}"}
        )
        assert "alice@example.com" in {row["actor"] for row in rows.json()["items"]}
        tasks.cancel_scope.cancel()


@contextmanager
def serving(body: bytes, status: int) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/keys"
        finally:
            server.shutdown()
            thread.join()


async def test_keys_come_from_a_url_or_a_file_and_are_bounded(tmp_path: Path) -> None:
    with serving(document(KEY), 200) as url:
        assert await fetch_jwks_from(url, ca=None)() == document(KEY)
    for status in (302, 500):
        with serving(document(KEY), status) as url, pytest.raises(httpx.HTTPStatusError):
            await fetch_jwks_from(url, ca=None)()
    endless = b" " * (JWKS_BYTES_MAX + 1_000_000)
    with serving(endless, 200) as url:
        assert JWKS_BYTES_MAX < len(await fetch_jwks_from(url, ca=None)()) < len(endless)
    file = tmp_path / "keys.json"
    file.write_bytes(endless)
    assert len(await fetch_jwks_from(str(file), ca=None)()) == JWKS_BYTES_MAX + 1


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"oidc_roles": ""}, "belong together"),
        ({"oidc_issuer": ""}, "belong together"),
        ({"oidc_jwks": "http://idp.example/keys"}, "must be https://"),
        ({"oidc_jwks": "ftp://idp.example/keys"}, "must be https://"),
        ({"oidc_roles": "admins"}, "is not VALUE=ROLE"),
        ({"oidc_roles": "a=admin,a=viewer"}, "each value once"),
        ({"oidc_roles": "a=root"}, "--oidc-roles"),
        ({"oidc_roles": "a=broker"}, "values have one of the roles"),
        ({"oidc_ca": "/absent"}, "--oidc-ca: cannot read"),
    ],
)
def test_a_configuration_that_would_let_the_wrong_ones_in_is_refused(
    changed: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        read_issuer(load_config(CONFIG | changed, {}), VirtualClock())


def test_an_issuer_is_there_if_it_is_configured() -> None:
    assert read_issuer(load_config({}, {}), VirtualClock()) is None
    assert read_issuer(load_config(CONFIG, {}), VirtualClock()) is not None
    near = CONFIG | {"oidc_jwks": "http://localhost:9000/keys"}
    assert read_issuer(load_config(near, {}), VirtualClock()) is not None
