"""The keys of an issuer, from a real server on loopback, and the tokens that they verify."""

from __future__ import annotations

import base64
import hmac
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from springtide.node import jwks
from springtide.node.clock import MachineClock
from springtide.node.jwks import IssuerKeys
from springtide.node.sasl_settings import IssuerSettings
from springtide.node.threads import TrioThreads
from springtide.security.sasl.oauthbearer import TokenFault, TokenRefused
from springtide.security.sasl.token_rules import TokenRules
from springtide.security.sasl.tokens import JWKS_BYTES_MAX
from tests.kit.springtide.certificates import PrivateCa
from tests.kit.springtide.token_issuer import AUDIENCE, ISSUER, TokenIssuer, new_key, token_issuer

SECONDS_MAX = 30


def run(
    test: Callable[[TokenIssuer, IssuerKeys], Awaitable[None]],
    *,
    refresh_ms: int = 3_600_000,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Run a test once the keys were asked for."""

    async def main() -> None:
        with token_issuer(tls=tls) as issuer, trio.fail_after(SECONDS_MAX):
            rules = TokenRules(issuer=ISSUER, audiences=(AUDIENCE,), clock_skew_s=0)
            settings = IssuerSettings(jwks_url=issuer.url, refresh_ms=refresh_ms, rules=rules)
            keys = IssuerKeys(settings, MachineClock(), TrioThreads())
            async with trio.open_nursery() as nursery:
                nursery.start_soon(keys.run)
                await keys.prepare(message(issuer.token("alice")))
                await test(issuer, keys)
                nursery.cancel_scope.cancel()

    trio.run(main)


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def message(token: str) -> bytes:
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


async def verified(keys: IssuerKeys, token: str) -> str | TokenFault:
    """Return whose token it is, or why it is refused, as a login finds out."""
    await keys.prepare(message(token))
    outcome = keys.verify(token)
    return outcome.fault if isinstance(outcome, TokenRefused) else outcome.principal


def test_tokens_are_verified_by_the_keys_that_the_issuer_tells() -> None:
    async def test(issuer: TokenIssuer, keys: IssuerKeys) -> None:
        now_s = int(time.time())
        _, claims, _ = issuer.token("mallory").split(".")
        unsigned = encoded(b'{"alg": "none"}') + f".{claims}."
        signed = encoded(b'{"alg": "HS256", "kid": "first"}') + f".{claims}"
        public_key_as_secret = hmac.digest(issuer.key.as_pem(private=False), signed.encode(), "sha256")
        confused = f"{signed}.{encoded(public_key_as_secret)}"
        tokens: list[tuple[str, Any]] = [
            (issuer.token("alice"), "alice"),
            (issuer.token("alice", exp=now_s - 1), TokenFault.EXPIRED),
            (issuer.token("alice", nbf=now_s + 600), TokenFault.NOT_YET_VALID),
            (issuer.token("alice", aud="another"), TokenFault.AUDIENCE),
            (issuer.token("alice", iss="https://other.example"), TokenFault.ISSUER),
            (issuer.token("alice", key=new_key("first")), TokenFault.SIGNATURE),
            (unsigned, TokenFault.ALGORITHM),
            (confused, TokenFault.ALGORITHM),
        ]
        assert [await verified(keys, token) for token, _ in tokens] == [outcome for _, outcome in tokens]
        assert issuer.asked == 1

    run(test)


def test_a_token_of_a_new_key_waits_for_the_keys_to_be_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(issuer: TokenIssuer, keys: IssuerKeys) -> None:
        old = issuer.token("alice")
        issuer.rotate(new_key("second"))
        assert await verified(keys, old) == "alice", "nothing has been fetched yet"
        assert await verified(keys, issuer.token("bob")) == "bob"
        assert await verified(keys, old) is TokenFault.UNKNOWN_KEY
        assert issuer.asked >= 2

    monkeypatch.setattr(jwks, "RETRY_MS", 0)
    run(test)


def test_tokens_of_unknown_keys_do_not_make_it_fetch_without_end() -> None:
    async def test(issuer: TokenIssuer, keys: IssuerKeys) -> None:
        for number in range(50):
            token = issuer.token("mallory", key=new_key(f"made up {number}"))
            assert await verified(keys, token) is TokenFault.UNKNOWN_KEY
        assert issuer.asked == 1

    run(test)


def test_keys_are_fetched_again_after_the_interval() -> None:
    async def test(issuer: TokenIssuer, keys: IssuerKeys) -> None:
        issuer.rotate(new_key("second"))
        while await verified(keys, issuer.token("bob")) != "bob":  # noqa: ASYNC110 - a server's thread answers
            await trio.sleep(0.01)

    run(test, refresh_ms=50)


@pytest.mark.parametrize(
    "document", [None, b"", b"{}", b'{"keys": []}', b"<html>", b" " * (JWKS_BYTES_MAX + 1)]
)
def test_the_keys_there_were_stay_when_no_usable_ones_come(
    document: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(issuer: TokenIssuer, keys: IssuerKeys) -> None:
        token = issuer.token("alice")
        good, issuer.document = issuer.document, document
        while keys.failures < 2:  # noqa: ASYNC110 - as above
            await trio.sleep(0.01)
        assert await verified(keys, token) == "alice"
        issuer.document = good
        while "jwks_fetched" not in caplog.text.partition("jwks_not_fetched")[2]:  # noqa: ASYNC110
            await trio.sleep(0.01)
        assert caplog.text.count("jwks_not_fetched") == 1, "it is told once"

    caplog.set_level("INFO")
    run(test, refresh_ms=20)


def test_until_keys_have_come_tokens_are_refused() -> None:
    async def main() -> None:
        rules = TokenRules(issuer=ISSUER, audiences=(AUDIENCE,))
        with token_issuer() as issuer, trio.fail_after(SECONDS_MAX):
            issuer.document = None
            settings = IssuerSettings(jwks_url=issuer.url, refresh_ms=60_000, rules=rules)
            keys = IssuerKeys(settings, MachineClock(), TrioThreads())
            async with trio.open_nursery() as nursery:
                nursery.start_soon(keys.run)
                assert await verified(keys, issuer.token("alice")) is TokenFault.UNKNOWN_KEY
                assert keys.failures == 1
                nursery.cancel_scope.cancel()

    trio.run(main)


def test_an_issuer_of_a_private_ca_is_trusted_by_the_environment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = PrivateCa(tmp_path, has_key_usage=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca.keystore("issuer"))
    outcomes = []

    async def test(issuer: TokenIssuer, keys: IssuerKeys) -> None:
        outcomes.append(await verified(keys, issuer.token("alice")))

    run(test, tls=context)
    monkeypatch.setenv("SSL_CERT_FILE", ca.file)
    run(test, tls=context)
    assert outcomes == [TokenFault.UNKNOWN_KEY, "alice"]


@pytest.mark.parametrize(
    ("url", "ca_file"),
    [
        ("http://127.0.0.1:1/keys", ""),
        ("https://127.0.0.1:1/keys", ""),
        ("https://127.0.0.1:1/keys", "/missing.pem"),
        ("https://[::1", ""),
    ],
)
def test_an_issuer_that_can_not_be_reached_is_a_failure(
    url: str, ca_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", ca_file)

    async def main() -> None:
        rules = TokenRules(issuer=ISSUER, audiences=(AUDIENCE,))
        settings = IssuerSettings(jwks_url=url, refresh_ms=60_000, rules=rules)
        keys = IssuerKeys(settings, MachineClock(), TrioThreads())
        with trio.fail_after(SECONDS_MAX):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(keys.run)
                await keys.prepare(b"no message")
                assert keys.failures == 1
                nursery.cancel_scope.cancel()

    trio.run(main)
