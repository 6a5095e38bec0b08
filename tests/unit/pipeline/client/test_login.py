"""The client's side of SASL against the servers' sides, in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pipeline.client.errors import AccessRefused
from pipeline.client.login import log_in
from pipeline.client.security import client_security
from springtide.security.sasl.exchange import Mechanism
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.pipeline.sasl_side import NAME, PASSWORD, TOKEN, SaslSide, options


def logged_in(side: SaslSide, given: Mapping[str, str]) -> int:
    security = client_security(given, prefix="kafka.")
    assert security.login is not None
    return log_in(security, security.login, side.ask)


def refusal(side: SaslSide, given: Mapping[str, str]) -> str:
    with pytest.raises(AccessRefused) as caught:
        logged_in(side, given)
    assert PASSWORD not in str(caught.value) and TOKEN not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("mechanism", Mechanism)
def test_alice_is_known_by_each_mechanism_and_told_when_her_session_ends(mechanism: Mechanism) -> None:
    side = SaslSide(lifetime_ms_max=60_000)
    assert logged_in(side, options(mechanism)) == 60_000
    assert (side.session.principal, side.session.mechanism) == (NAME, mechanism)


def test_a_session_may_have_no_end() -> None:
    assert logged_in(SaslSide(), options(Mechanism.PLAIN)) == 0


@pytest.mark.parametrize("mechanism", [one for one in Mechanism if one is not Mechanism.OAUTHBEARER])
def test_a_wrong_password_and_an_unknown_user_are_told_alike(mechanism: Mechanism) -> None:
    wrong = refusal(SaslSide(), options(mechanism, sasl_password="guess"))
    unknown = refusal(SaslSide(), options(mechanism, sasl_username="mallory"))
    assert wrong == unknown.replace("'mallory'", f"'{NAME}'")
    assert "check kafka.sasl.username and kafka.sasl.password" in wrong
    assert mechanism in wrong and "guess" not in wrong


def test_a_refused_token_is_told_and_not_shown() -> None:
    told = refusal(SaslSide(), options(Mechanism.OAUTHBEARER, sasl_oauthbearer_token="old.old.old"))
    assert "invalid_token" in told and "the token may have ended" in told and "old.old" not in told


def test_a_mechanism_that_is_not_enabled_is_told_with_those_that_are() -> None:
    told = refusal(SaslSide(Mechanism.SCRAM_SHA_512), options(Mechanism.PLAIN))
    assert told == ("PLAIN is not enabled there: set kafka.sasl.mechanism to one that is (SCRAM-SHA-512)")


def test_what_a_broker_says_is_shown_in_one_short_line() -> None:
    class Loud(SaslSide):
        def ask(self, api: ApiKey, fields: Mapping[str, object]) -> Any:
            answer = super().ask(api, fields)
            if api is ApiKey.SASL_HANDSHAKE:
                return answer
            return replace(
                answer,
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message="a\n\x1b[31m" + "b" * 999,
            )

    told = refusal(Loud(), options(Mechanism.PLAIN))
    assert told.startswith("a??[31mbbb") and len(told) < 500


def test_a_server_that_does_not_know_the_password_is_not_trusted() -> None:
    """It accepts any proof."""

    class Impostor(SaslSide):
        def ask(self, api: ApiKey, fields: Mapping[str, object]) -> Any:
            answer = super().ask(api, fields)
            if not answer.error_code:
                return answer
            return replace(answer, error_code=ErrorCode.NONE, auth_bytes=b"v=" + b"A" * 43 + b"=")

    impostor = Impostor(password="not hers")
    assert "the server's signature is wrong" in refusal(impostor, options(Mechanism.SCRAM_SHA_256))


def test_a_token_is_read_from_its_file_at_each_login(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    given = options(Mechanism.OAUTHBEARER) | {
        "sasl.oauthbearer.token.endpoint.url": f"file://{tmp_path}/a%20token"
    }
    del given["sasl.oauthbearer.token"]
    assert f"can't read {file}" in refusal(SaslSide(), given)
    for bad in (b"", b"two words", b"\xff", b"x" * 40_000):
        file.write_bytes(bad)
        assert f"there is no bearer token in {file}" in refusal(SaslSide(), given)
    file.write_text(f"{TOKEN}\n")
    assert logged_in(SaslSide(), given) == 3_600_000
