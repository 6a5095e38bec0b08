"""What a connection may ask before, during and after its authentication (KIP-368)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from springtide.security.sasl.clients import ClientReply, ScramClient
from springtide.security.sasl.credentials import credential_from_password
from springtide.security.sasl.exchange import Mechanism
from springtide.security.sasl.oauthbearer import (
    OauthbearerServer,
    TokenAccepted,
    TokenFault,
    TokenRefused,
)
from springtide.security.sasl.plain import PlainServer
from springtide.security.sasl.scram import ScramServer
from springtide.security.sasl.session import (
    LIFETIME_MS_MAX,
    AuthenticateAnswer,
    HandshakeAnswer,
    SaslSession,
)
from springtide.wire.errors import ErrorCode

API_VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA, PRODUCE = 18, 17, 36, 3, 0
WALL_MS = 1_800_000_000_000
CREDENTIAL = credential_from_password(Mechanism.SCRAM_SHA_256, "secret", salt=b"salt", iterations=4096)
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")


def session(*, lifetime_ms_max: int | None = None) -> SaslSession:
    """A session whose users all have the password `secret`, and whose tokens are `NAME.ms` of life."""

    def verify(token: str) -> TokenAccepted | TokenRefused:
        name, _, lifetime_ms = token.partition(".")
        if not lifetime_ms:
            return TokenRefused(TokenFault.SIGNATURE)
        return TokenAccepted(name, expiry_ms=WALL_MS + int(lifetime_ms))

    return SaslSession(
        {
            "PLAIN": lambda: PlainServer(lambda _name, password: password == "secret"),
            "SCRAM-SHA-256": lambda: ScramServer(
                Mechanism.SCRAM_SHA_256, lambda _name: CREDENTIAL, server_nonce="s", fake_salt_key=b"k"
            ),
            "OAUTHBEARER": lambda: OauthbearerServer(verify),
        },
        lifetime_ms_max=lifetime_ms_max,
    )


def log_in(one: SaslSession, *, name: str = "alice", mono_ms: int = 0) -> AuthenticateAnswer:
    """Authenticate by PLAIN."""
    assert one.on_handshake("PLAIN", mono_ms=mono_ms).error is ErrorCode.NONE
    return authenticate(one, f"\0{name}\0secret", mono_ms=mono_ms)


def authenticate(one: SaslSession, token: str, *, mono_ms: int = 0) -> AuthenticateAnswer:
    return one.on_authenticate(token.encode(), mono_ms=mono_ms, wall_ms=WALL_MS)


def started(one: SaslSession, *, mono_ms: int = 0) -> set[int]:
    """Return which of some requests may start."""
    apis = (API_VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA, PRODUCE)
    return {api for api in apis if one.may_start(api, mono_ms=mono_ms)}


EVERY = {API_VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA, PRODUCE}


def test_requests_open_up_with_the_authentication() -> None:
    one = session()
    assert started(one) == {API_VERSIONS, HANDSHAKE, AUTHENTICATE}
    assert one.on_handshake("PLAIN", mono_ms=0) == HandshakeAnswer(ErrorCode.NONE, MECHANISMS)
    assert started(one) == {HANDSHAKE, AUTHENTICATE}
    assert one.principal is None
    assert authenticate(one, "\0alice\0secret") == AuthenticateAnswer(ErrorCode.NONE)
    assert (one.principal, one.mechanism) == ("alice", "PLAIN")
    assert started(one, mono_ms=10**12) == EVERY


def test_a_mechanism_of_several_messages_opens_only_after_the_last() -> None:
    one = session(lifetime_ms_max=5000)
    client = ScramClient(Mechanism.SCRAM_SHA_256, "alice", "secret", client_nonce="c")
    one.on_handshake("SCRAM-SHA-256", mono_ms=0)
    first = client.step(b"")
    assert isinstance(first, ClientReply)
    challenge = one.on_authenticate(first.token, mono_ms=0, wall_ms=WALL_MS)
    assert challenge == AuthenticateAnswer(ErrorCode.NONE, token=b"r=cs,s=c2FsdA==,i=4096")
    assert started(one) == {HANDSHAKE, AUTHENTICATE}
    last = client.step(challenge.token)
    assert isinstance(last, ClientReply)
    answer = one.on_authenticate(last.token, mono_ms=0, wall_ms=WALL_MS)
    assert (answer.error, answer.session_lifetime_ms, answer.token[:2]) == (ErrorCode.NONE, 5000, b"v=")
    assert started(one) == EVERY


def test_an_unknown_mechanism_is_answered_with_the_list_and_ends_the_connection() -> None:
    one = session()
    assert one.on_handshake("GSSAPI", mono_ms=0) == HandshakeAnswer(
        ErrorCode.UNSUPPORTED_SASL_MECHANISM, MECHANISMS, closes=True
    )
    assert started(one) == set()


def test_wrong_credentials_end_the_connection_and_the_reason_is_for_the_log_only() -> None:
    one = session()
    one.on_handshake("PLAIN", mono_ms=0)
    answer = authenticate(one, "\0alice\0guess")
    assert answer == AuthenticateAnswer(
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        "Authentication failed: the credentials are invalid",
        closes=True,
        reason="unknown user or wrong password: 'alice'",
    )
    assert started(one) == set()
    assert one.principal is None
    assert authenticate(one, "\0alice\0secret").error is ErrorCode.ILLEGAL_SASL_STATE
    assert one.on_handshake("PLAIN", mono_ms=0).error is ErrorCode.ILLEGAL_SASL_STATE
    assert started(one) == set()


def test_a_token_before_the_handshake_ends_the_connection() -> None:
    one = session()
    answer = authenticate(one, "\0alice\0secret")
    assert (answer.error, answer.closes) == (ErrorCode.ILLEGAL_SASL_STATE, True)
    assert started(one) == set()


def test_a_second_handshake_during_the_exchange_ends_the_connection() -> None:
    one = session()
    one.on_handshake("PLAIN", mono_ms=0)
    assert one.on_handshake("OAUTHBEARER", mono_ms=0) == HandshakeAnswer(
        ErrorCode.ILLEGAL_SASL_STATE, (), closes=True
    )
    assert authenticate(one, "\0alice\0secret").error is ErrorCode.ILLEGAL_SASL_STATE
    assert one.principal is None


def test_an_open_session_without_an_end_refuses_the_sasl_requests_and_goes_on() -> None:
    one = session()
    log_in(one)
    assert one.on_handshake("PLAIN", mono_ms=0) == HandshakeAnswer(ErrorCode.ILLEGAL_SASL_STATE, ())
    answer = authenticate(one, "\0bob\0secret")
    assert (answer.error, answer.closes) == (ErrorCode.ILLEGAL_SASL_STATE, False)
    assert one.principal == "alice"
    assert started(one) == EVERY


@pytest.mark.parametrize(
    ("token", "lifetime_ms_max", "expected"),
    [
        ("alice.60000", None, 60_000),
        ("alice.60000", 10_000, 10_000),
        ("alice.5000", 10_000, 5_000),
        ("alice.-20", None, 1),
        ("alice.-20", 10_000, 1),
        ("alice." + "9" * 40, None, LIFETIME_MS_MAX),
    ],
)
def test_a_session_ends_with_the_token_or_at_the_limit(
    token: str, lifetime_ms_max: int | None, expected: int
) -> None:
    one = session(lifetime_ms_max=lifetime_ms_max)
    one.on_handshake("OAUTHBEARER", mono_ms=0)
    answer = authenticate(one, f"n,,\x01auth=Bearer {token}\x01\x01", mono_ms=7)
    assert answer == AuthenticateAnswer(ErrorCode.NONE, session_lifetime_ms=expected)
    assert started(one, mono_ms=7 + expected) == EVERY
    assert not one.is_expired(7 + expected)
    assert started(one, mono_ms=8 + expected) == {HANDSHAKE}
    assert one.is_expired(8 + expected)


@pytest.mark.parametrize("mono_ms", [4000, 5000, 60_000])
def test_authenticating_again_before_or_after_the_end_renews_the_session(mono_ms: int) -> None:
    one = session(lifetime_ms_max=5000)
    assert log_in(one).session_lifetime_ms == 5000
    assert one.on_handshake("PLAIN", mono_ms=mono_ms) == HandshakeAnswer(ErrorCode.NONE, ("PLAIN",))
    assert started(one, mono_ms=mono_ms) == {HANDSHAKE, AUTHENTICATE}
    assert authenticate(one, "\0alice\0secret", mono_ms=mono_ms).session_lifetime_ms == 5000
    assert started(one, mono_ms=mono_ms + 5000) == EVERY
    assert started(one, mono_ms=mono_ms + 5001) == {HANDSHAKE}


def test_authenticating_again_as_another_ends_the_connection() -> None:
    one = session(lifetime_ms_max=5000)
    log_in(one)
    answer = log_in(one, name="bob", mono_ms=4000)
    assert answer == AuthenticateAnswer(
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        "Authentication failed: a connection can't change its principal",
        closes=True,
        reason="re-authentication of 'alice' as 'bob'",
    )
    assert one.principal == "alice"
    assert started(one, mono_ms=4000) == set()


def test_authenticating_again_by_another_mechanism_ends_the_connection() -> None:
    one = session(lifetime_ms_max=5000)
    log_in(one)
    assert one.on_handshake("OAUTHBEARER", mono_ms=4000) == HandshakeAnswer(
        ErrorCode.UNSUPPORTED_SASL_MECHANISM, ("PLAIN",), closes=True
    )
    assert started(one, mono_ms=4000) == set()


def test_a_wrong_password_the_second_time_ends_the_connection() -> None:
    one = session(lifetime_ms_max=5000)
    log_in(one)
    one.on_handshake("PLAIN", mono_ms=4000)
    assert authenticate(one, "\0alice\0guess", mono_ms=4000).closes
    assert started(one, mono_ms=4000) == set()


def test_authenticating_again_within_a_second_is_refused_and_the_session_goes_on() -> None:
    one = session(lifetime_ms_max=5000)
    log_in(one)
    log_in(one, mono_ms=100)
    assert one.on_handshake("PLAIN", mono_ms=1099) == HandshakeAnswer(ErrorCode.ILLEGAL_SASL_STATE, ())
    assert started(one, mono_ms=1099) == EVERY
    assert log_in(one, mono_ms=1100).error is ErrorCode.NONE


EVENTS = st.lists(
    st.tuples(st.sampled_from(["PLAIN", "OAUTHBEARER", "GSSAPI", ""]), st.just(b""))
    | st.tuples(
        st.none(),
        st.sampled_from(
            [b"\0alice\0secret", b"\0bob\0secret", b"\0bob\0x", b"\x01", b"n,,\x01auth=Bearer a\x01\x01"]
        )
        | st.binary(max_size=20),
    ),
    max_size=12,
)


@given(events=EVENTS, pause_ms=st.sampled_from([0, 999, 2000, 6000]))
def test_no_order_of_requests_serves_a_client_that_has_not_authenticated(
    events: list[tuple[str | None, bytes]], pause_ms: int
) -> None:
    """A data request may start only when the last answer of a SaslAuthenticate that was taken was a success,
    and a connection that was told to close starts nothing more."""
    one = session(lifetime_ms_max=5000)
    mono_ms, closed, principals = 0, False, set()
    for mechanism, token in events:
        mono_ms += pause_ms
        api = AUTHENTICATE if mechanism is None else HANDSHAKE
        assert not closed or not one.may_start(api, mono_ms=mono_ms)
        if not one.may_start(api, mono_ms=mono_ms):
            continue
        if mechanism is None:
            closed |= one.on_authenticate(token, mono_ms=mono_ms, wall_ms=WALL_MS).closes
        else:
            closed |= one.on_handshake(mechanism, mono_ms=mono_ms).closes
        principals |= {one.principal} - {None}
        if one.may_start(PRODUCE, mono_ms=mono_ms):
            assert one.principal is not None
            assert not closed
    assert len(principals) <= 1
