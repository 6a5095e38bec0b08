"""The authentication of connections: what honest clients get, and what hostile ones do not."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from springtide.node import sasl_connection
from springtide.security.sasl.clients import PlainClient, ScramClient
from springtide.security.sasl.exchange import Mechanism
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.raw import frame_of, request
from tests.kit.springtide.sasl_desk import DeskClient, SaslDesk, sasl_desk
from tests.kit.springtide.users import user, users

PEOPLE = users(alice="secret", bob="other")
PLAIN, SCRAM = "PLAIN", "SCRAM-SHA-256"
T = TypeVar("T")
Test = Callable[[], Awaitable[None]]


def virtual(test: Test) -> Callable[[], None]:
    """Run an async test in virtual time."""

    @functools.wraps(test)
    def run() -> None:
        trio.run(test, clock=trio.testing.MockClock(autojump_threshold=0))

    return run


def plain(name: str = "alice", password: str = "secret") -> bytes:
    return f"\0{name}\0{password}".encode()


def scram(name: str = "alice", password: str = "secret") -> ScramClient:
    return ScramClient(Mechanism.SCRAM_SHA_256, name, password, client_nonce="client")


@virtual
async def test_a_client_that_has_logged_in_is_known_by_its_name() -> None:
    async with sasl_desk(PEOPLE) as desk:
        by_plain, by_scram = desk.connect(), desk.connect()
        assert await by_plain.log_in(PlainClient("alice", "secret"), PLAIN) is ErrorCode.NONE
        assert await by_scram.log_in(scram("bob", "other"), SCRAM) is ErrorCode.NONE
        assert (await by_plain.use(), await by_scram.use()) == ("User:alice", "User:bob")
        assert desk.counted("successful_authentication") == 2


@virtual
async def test_api_versions_are_told_before_and_after() -> None:
    async with sasl_desk(PEOPLE) as desk:
        client = desk.connect()
        before = await client.ask(ApiKey.API_VERSIONS, {})
        assert await client.log_in(PlainClient("alice", "secret"), PLAIN) is ErrorCode.NONE
        assert await client.ask(ApiKey.API_VERSIONS, {}) == before


@virtual
async def test_a_request_before_the_login_ends_the_connection_without_an_answer() -> None:
    """TN#696: there a connection counted as logged in before it was."""
    async with sasl_desk(PEOPLE) as desk:
        early, between = desk.connect(), desk.connect()
        assert await early.use() is None
        assert await between.handshake(PLAIN) is ErrorCode.NONE
        assert await between.ask(ApiKey.API_VERSIONS, {}) is None
        assert early.is_closed and between.is_closed


@virtual
async def test_requests_behind_a_login_wait_for_its_end() -> None:
    async with sasl_desk(PEOPLE) as desk:
        right, wrong = desk.connect(), desk.connect()
        for client, password in ((right, "secret"), (wrong, "guess")):
            client.send(ApiKey.SASL_HANDSHAKE, {"mechanism": PLAIN})
            client.send(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": plain(password=password)})
            client.send(ApiKey.METADATA, {"topics": ()})
        await desk.settle()
        assert desk.principals == ["User:alice"]
        assert wrong.is_closed and not right.is_closed


@virtual
async def test_a_failure_is_answered_after_the_delay_and_ends_the_connection() -> None:
    async with sasl_desk(PEOPLE, connection_failed_authentication_delay_ms="5000") as desk:
        client = desk.connect()
        assert await client.handshake(PLAIN) is ErrorCode.NONE
        client.send(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": plain(password="guess")})
        await desk.settle()
        assert client.take(ApiKey.SASL_AUTHENTICATE) is None and not client.is_closed
        assert desk.poller.interest[client.channel] == (False, False), "it is not read meanwhile"
        await trio.sleep(5)
        answer = client.take(ApiKey.SASL_AUTHENTICATE)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == "Authentication failed: the credentials are invalid"
        assert client.is_closed
        assert desk.counted("failed_authentication") == 1


@virtual
async def test_a_failure_s_answer_that_the_kernel_does_not_take_at_once_still_comes() -> None:
    async with sasl_desk(PEOPLE) as desk:
        client = desk.connect()
        assert await client.handshake(PLAIN) is ErrorCode.NONE
        client.channel.room_bytes = 10
        client.send(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": b"\0"})
        await desk.settle()
        assert not client.is_closed
        client.channel.room_bytes = 1_000
        await desk.settle()
        assert client.take(ApiKey.SASL_AUTHENTICATE).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.is_closed


def test_the_log_tells_which_mechanism_a_client_wanted(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with sasl_desk(PEOPLE) as desk:
            assert await desk.connect().handshake("G" * 1_000) is ErrorCode.UNSUPPORTED_SASL_MECHANISM

    caplog.set_level("INFO")
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert f"mechanism={'G' * 50} cause=UNSUPPORTED_SASL_MECHANISM" in caplog.text


@virtual
async def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    async with sasl_desk(PEOPLE) as desk:
        client = desk.connect()
        answer = await client.ask(ApiKey.SASL_HANDSHAKE, {"mechanism": "GSSAPI"})
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
        assert client.is_closed


@virtual
async def test_a_handshake_whose_tokens_would_come_bare_is_refused() -> None:
    async with sasl_desk(PEOPLE) as desk:
        client = desk.connect()
        answer = await client.ask(ApiKey.SASL_HANDSHAKE, {"mechanism": PLAIN}, version=0)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert client.is_closed


@virtual
async def test_where_there_is_no_sasl_it_is_out_of_place_and_the_connection_goes_on() -> None:
    async with sasl_desk(PEOPLE) as desk:
        client = desk.connect("INTERNAL")
        assert await client.handshake(PLAIN) is ErrorCode.ILLEGAL_SASL_STATE
        answer = await client.authenticate(plain())
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await client.use() == "User:ANONYMOUS"


@virtual
async def test_sasl_requests_out_of_order_are_refused() -> None:
    async with sasl_desk(PEOPLE) as desk:
        no_handshake, twice, again = desk.connect(), desk.connect(), desk.connect()
        answer = await no_handshake.authenticate(plain())
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE and no_handshake.is_closed
        assert await twice.handshake(PLAIN) is ErrorCode.NONE
        assert await twice.handshake(PLAIN) is ErrorCode.ILLEGAL_SASL_STATE and twice.is_closed
        assert await again.log_in(PlainClient("alice", "secret"), PLAIN) is ErrorCode.NONE
        assert await again.handshake(PLAIN) is ErrorCode.ILLEGAL_SASL_STATE
        assert await again.use() == "User:alice", "its session has no end, so there is nothing to renew"


# Sizes and times


@virtual
async def test_before_the_login_requests_are_small_and_after_it_as_large_as_any() -> None:
    async with sasl_desk(PEOPLE, sasl_server_max_receive_size="4096") as desk:
        large = request(ApiKey.METADATA, 1, {"topics": tuple({"name": "x" * 100} for _ in range(100))})
        early, later = desk.connect(), desk.connect()
        early.channel.incoming += large[:8]
        await desk.settle()
        assert early.is_closed
        assert await later.log_in(PlainClient("alice", "secret"), PLAIN) is ErrorCode.NONE
        later.channel.incoming += large
        await desk.settle()
        assert desk.principals == ["User:alice"]


@virtual
async def test_huge_scram_messages_are_refused() -> None:
    async with sasl_desk(PEOPLE) as desk:
        for message in (b"n,,n=alice,r=" + b"x" * 100_000, b"n,," + b"a" * 9_000, b"\xff" * 100):
            client = desk.connect()
            assert await client.handshake(SCRAM) is ErrorCode.NONE
            answer = await client.authenticate(message)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED and client.is_closed


@virtual
async def test_a_client_that_does_not_log_in_in_time_is_closed_also_if_it_says_nothing() -> None:
    async with sasl_desk(PEOPLE) as desk:
        silent, started, in_exchange, known = (desk.connect() for _ in range(4))
        await started.ask(ApiKey.API_VERSIONS, {})
        assert await in_exchange.handshake(SCRAM) is ErrorCode.NONE
        assert await known.log_in(PlainClient("alice", "secret"), PLAIN) is ErrorCode.NONE
        await trio.sleep(sasl_connection.LOGIN_MS_MAX / 1000)
        desk.server.look_after_connections()
        assert [one.is_closed for one in (silent, started, in_exchange, known)] == [True, True, True, False]


class GatedThreads:
    """Threads whose work begins when the gate is open, as it is at first."""

    def __init__(self) -> None:
        self.gate = trio.Event()
        self.gate.set()
        self.waiting = 0
        self.most_at_once = 0

    async def run(self, work: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
        assert limiter is not None
        async with limiter:
            self.waiting += 1
            self.most_at_once = max(self.most_at_once, self.waiting)
            await self.gate.wait()
            self.waiting -= 1
            return work()


@virtual
async def test_a_slow_step_keeps_no_other_connection_waiting_and_few_run_at_once() -> None:
    threads = GatedThreads()
    async with sasl_desk(PEOPLE, threads=threads) as desk:
        guessing = [desk.connect() for _ in range(9)]
        for client in guessing:
            assert await client.handshake(PLAIN) is ErrorCode.NONE
        threads.gate = trio.Event()
        for client in guessing:
            client.send(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": plain(password="guess")})
        await desk.settle()
        other = desk.connect("INTERNAL")
        assert await other.use() == "User:ANONYMOUS"
        assert threads.most_at_once == sasl_connection.STEPS_AT_ONCE
        await trio.sleep(sasl_connection.LOGIN_MS_MAX / 1000)
        desk.server.look_after_connections()
        assert not any(client.is_closed for client in guessing), "the delay is ours"
        threads.gate.set()
        await desk.settle()
        assert all(client.is_closed for client in guessing)
        assert threads.most_at_once == sasl_connection.STEPS_AT_ONCE


@virtual
async def test_a_connection_that_ends_during_a_step_is_answered_with_nothing() -> None:
    async with sasl_desk(PEOPLE) as desk:
        client = desk.connect()
        assert await client.handshake(PLAIN) is ErrorCode.NONE
        client.send(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": plain()})
        desk.turn()
        (connection,) = desk.server._connections
        connection.close()
        await desk.settle()
        assert client.take(ApiKey.SASL_AUTHENTICATE) is None


@virtual
async def test_a_bug_in_a_step_ends_its_connection_only() -> None:
    class Broken:
        async def run(self, work: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
            raise ZeroDivisionError

    async with sasl_desk(PEOPLE, threads=Broken()) as desk:
        client, other = desk.connect(), desk.connect("INTERNAL")
        assert await client.ask(ApiKey.SASL_HANDSHAKE, {"mechanism": PLAIN}) is None
        assert client.is_closed
        assert await other.use() == "User:ANONYMOUS"


# Sessions with an end (KIP-368)


@virtual
async def test_a_session_ends_unless_the_client_logs_in_again() -> None:
    async with sasl_desk(PEOPLE, connections_max_reauth_ms="10000") as desk:
        renewing, lapsing = desk.connect(), desk.connect()
        for client in (renewing, lapsing):
            assert await client.handshake(PLAIN) is ErrorCode.NONE
            answer = await client.authenticate(plain())
            assert answer.session_lifetime_ms == 10_000
        await trio.sleep(6)
        assert await renewing.log_in(PlainClient("alice", "secret"), PLAIN) is ErrorCode.NONE
        await trio.sleep(6)
        assert await renewing.use() == "User:alice"
        assert await lapsing.use() is None and lapsing.is_closed
        assert desk.counted("successful_reauthentication") == 1
        assert desk.counted("expired_connections_killed") == 1


@virtual
async def test_on_a_connection_no_other_user_logs_in() -> None:
    async with sasl_desk(PEOPLE, connections_max_reauth_ms="10000") as desk:
        client = desk.connect()
        assert await client.log_in(PlainClient("alice", "secret"), PLAIN) is ErrorCode.NONE
        failed = ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.log_in(PlainClient("bob", "other"), PLAIN) is failed
        assert client.is_closed
        assert desk.counted("failed_reauthentication") == 1


# Users that are not known yet, and users that change


@virtual
async def test_a_login_waits_until_the_users_are_known_and_is_not_refused() -> None:
    async with sasl_desk({}) as desk:
        desk.knows_users = False
        early, patient = desk.connect(), desk.connect()
        early.send(ApiKey.SASL_HANDSHAKE, {"mechanism": PLAIN})
        await desk.settle()
        await trio.sleep(sasl_connection.USERS_MS_MAX / 1000)
        await desk.settle()
        assert early.take(ApiKey.SASL_HANDSHAKE) is None and early.is_closed
        patient.send(ApiKey.SASL_HANDSHAKE, {"mechanism": PLAIN})
        patient.send(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": plain()})
        await desk.settle()
        assert patient.take(ApiKey.SASL_HANDSHAKE) is None and not patient.is_closed
        desk.view.users, desk.knows_users = PEOPLE, True
        await desk.settle()
        assert await patient.use() == "User:alice"
        assert desk.counted("failed_authentication") == 0


@pytest.mark.parametrize("mechanism", [PLAIN, SCRAM])
def test_a_connection_ends_when_the_secret_by_which_it_logged_in_is_gone(mechanism: str) -> None:
    def clients_end(later: dict[str, Any]) -> tuple[bool, bool]:
        async def main() -> tuple[bool, bool]:
            async with sasl_desk(PEOPLE) as desk:
                alice, bob = desk.connect(), desk.connect()
                for client, name, password in ((alice, "alice", "secret"), (bob, "bob", "other")):
                    ours = PlainClient(name, password) if mechanism == PLAIN else scram(name, password)
                    assert await client.log_in(ours, mechanism) is ErrorCode.NONE
                desk.view.users = later
                desk.server.look_after_connections()
                assert desk.counted("revoked_connections_killed") == alice.is_closed
                return alice.is_closed, bob.is_closed

        return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

    bob = {"bob": PEOPLE["bob"]}
    same_again = users(alice="secret", bob="other")
    other_password = bob | {"alice": user("alice", "changed")}
    less = bob | {"alice": user("alice", "secret", mechanisms=(Mechanism.SCRAM_SHA_256,))}
    assert clients_end(bob) == (True, False)
    assert clients_end(other_password) == (True, False)
    assert clients_end(same_again) == (False, False)
    assert clients_end(less) == (False, False)


@virtual
async def test_a_request_after_the_change_of_its_user_is_refused_before_anyone_looks_after_connections() -> (
    None
):
    async with sasl_desk(PEOPLE) as desk:
        alice, bob = desk.connect(), desk.connect()
        for client, name, password in ((alice, "alice", "secret"), (bob, "bob", "other")):
            assert await client.log_in(scram(name, password), SCRAM) is ErrorCode.NONE
        desk.view.users = {"bob": PEOPLE["bob"]}
        assert (await alice.use(), await bob.use()) == (None, "User:bob")
        assert (alice.is_closed, bob.is_closed) == (True, False)
        assert desk.counted("revoked_connections_killed") == 1


@virtual
async def test_a_login_that_a_change_of_the_user_overtakes_does_not_last() -> None:
    async with sasl_desk(PEOPLE) as desk:
        client = desk.connect()
        assert await client.handshake(SCRAM) is ErrorCode.NONE
        ours = scram()
        answer = await client.authenticate(ours.step(b"").token)  # type: ignore[union-attr]
        desk.view.users = users(alice="changed")
        desk.server.look_after_connections()
        answer = await client.authenticate(ours.step(answer.auth_bytes).token)  # type: ignore[union-attr]
        assert answer.error_code == 0
        assert await client.use() is None
        assert client.is_closed


# What is not to be learned


@virtual
async def test_an_unknown_user_is_challenged_alike_by_each_node_and_fails_as_a_known_one_does() -> None:
    async with sasl_desk(PEOPLE) as one, sasl_desk(PEOPLE) as other:
        challenges, failures = set(), set()
        for desk in (one, other):
            for name in ("alice", "stranger"):
                client = desk.connect()
                assert await client.handshake(SCRAM) is ErrorCode.NONE
                ours = scram(name, "guess")
                answer = await client.authenticate(ours.step(b"").token)  # type: ignore[union-attr]
                challenges.add((name, answer.auth_bytes.partition(b",s=")[2]))
                answer = await client.authenticate(ours.step(answer.auth_bytes).token)  # type: ignore[union-attr]
                failures.add((answer.error_code, answer.error_message))
        assert len(challenges) == 2 and len(failures) == 1


def test_no_password_or_token_comes_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with sasl_desk(PEOPLE) as desk:
            for message in (plain(password="p4ssw0rd"), b"alice\0alice\0p4ssw0rd\0", b"p4ssw0rd"):
                client = desk.connect()
                assert await client.handshake(PLAIN) is ErrorCode.NONE
                await client.authenticate(message)
                assert client.is_closed

    caplog.set_level("DEBUG")
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert caplog.text.count("authentication_failed peer=10.0.0.1 listener=CLIENTS mechanism=PLAIN") == 3
    assert "p4ssw0rd" not in caplog.text


async def _feed(desk: SaslDesk, client: DeskClient, frames: list[bytes]) -> None:
    for frame in frames:
        client.channel.incoming += frame
        await desk.settle()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(min_size=1, max_size=80).map(lambda body: len(body).to_bytes(4) + body),
            st.tuples(st.sampled_from((17, 18, 36, 3)), st.integers(0, 3), st.binary(max_size=60)).map(
                lambda made: frame_of(made[0], min(made[1], 1), made[2])
            ),
            st.sampled_from(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "", "\ud7ff")).map(
                lambda name: request(17, 1, {"mechanism": name})
            ),
            st.one_of(
                st.binary(max_size=60),
                st.text(alphabet="n=,ar\0pcsyv%é", max_size=30).map(str.encode),
                st.just(plain()),
            ).map(lambda token: request(36, 1, {"auth_bytes": token})),
        ),
        max_size=8,
    )
)
def test_nothing_that_a_client_sends_raises_or_opens_the_door(frames: list[bytes]) -> None:
    """Those that send alice's password log in, and no others."""

    async def main() -> None:
        async with sasl_desk(PEOPLE) as desk:
            await _feed(desk, desk.connect(), frames)
            assert await desk.connect("INTERNAL").use() == "User:ANONYMOUS"
            if not any(b"secret" in frame for frame in frames):
                assert desk.counted("successful_authentication") == 0
            assert {*desk.principals} <= {"User:ANONYMOUS", "User:alice"}

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
