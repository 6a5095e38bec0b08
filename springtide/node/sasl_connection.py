"""The authentication of one connection of a SASL listener: its session, its exchanges, and its end.

Steps run in threads, a few at a time for all connections, because the derivation of a password takes tens of
milliseconds. The connection is not read until a step is answered. A failure is answered after a delay, and
the connection is closed. It is closed, too, when its user no longer has the secret by which it logged in, at
its next request at the latest (docs/replication.md 2.12, answers), and when it has not logged in after
LOGIN_MS_MAX.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import trio

from springtide.contract.security import ScramSecret, UserSecrets
from springtide.node.client import KnownClient
from springtide.node.clock import Clock
from springtide.node.core.known_users import KnownUsers, VerifiedPasswords, credential_of, is_current
from springtide.node.sasl_counters import SaslCounters
from springtide.node.sasl_settings import SaslSettings
from springtide.node.threads import Threads
from springtide.security.sasl.credentials import ScramCredential, ScramMechanism
from springtide.security.sasl.exchange import Mechanism, ServerExchange
from springtide.security.sasl.oauthbearer import OauthbearerServer
from springtide.security.sasl.plain import PlainServer
from springtide.security.sasl.scram import ScramServer, base64_of
from springtide.security.sasl.session import AuthenticateAnswer, HandshakeAnswer, SaslSession
from springtide.wire.errors import ErrorCode
from springtide.wire.primitives import MalformedRequest

if TYPE_CHECKING:
    from springtide.node.jwks import IssuerKeys

_log = logging.getLogger(__name__)

LOGIN_MS_MAX: Final = 60_000
"""The time that a client has to log in, and to do it again once it has begun to."""
USERS_MS_MAX: Final = 30_000
"""The time that a login waits until this process knows the cluster's users, after it has started."""
USERS_LOOK_MS: Final = 50
NAME_CHARS_MAX: Final = 50
"""What the log shows of a mechanism's name."""
NONCE_BYTES: Final = 18
STEPS_AT_ONCE: Final = 2
"""The steps of PLAIN that are computed at once, and as many of the other mechanisms: clients that guess
passwords by PLAIN do not keep the others waiting."""

A = TypeVar("A", HandshakeAnswer, AuthenticateAnswer)


class LoginConnection(KnownClient, Protocol):
    """The connection of a client that logs in; see Connection."""

    @property
    def closed(self) -> bool: ...

    def limit_requests(self, request_bytes_max: int) -> None: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def end(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslListener:
    """The parts that the connections of one listener share. users_now, users: the users that the cluster has
    now, as they are told and as exchanges ask for them. knows_users: whether they have been told. spawn:
    runs a task of the process, whose end is the end of a turn."""

    name: str
    settings: SaslSettings
    knows_users: Callable[[], bool]
    users_now: Callable[[], Mapping[str, UserSecrets]]
    users: Callable[[], KnownUsers]
    passwords: VerifiedPasswords
    issuer: IssuerKeys | None
    request_bytes_max: int
    counters: SaslCounters
    plain_limiter: trio.CapacityLimiter
    limiter: trio.CapacityLimiter
    clock: Clock
    threads: Threads
    rng: random.Random
    spawn: Callable[[Callable[[], Awaitable[None]]], None]


class SaslConnection:
    """See the module."""

    __slots__ = (
        "_began_ms",
        "_connection",
        "_found",
        "_is_busy",
        "_listener",
        "_mechanism",
        "_secret",
        "_session",
        "_users_seen",
    )

    def __init__(self, listener: SaslListener, connection: LoginConnection) -> None:
        settings = listener.settings
        self._listener = listener
        self._connection = connection
        self._session = SaslSession(
            {mechanism.value: partial(self._exchange, mechanism) for mechanism in settings.mechanisms},
            lifetime_ms_max=settings.session_ms_max,
        )
        #: The mechanism that the client has named, whether there is one of that name or not.
        self._mechanism = ""
        #: When the client was last asked to log in.
        self._began_ms = listener.clock.mono_ms()
        #: A step is computed, or a failure's answer waits.
        self._is_busy = False
        #: The secret that the exchange checks, and the one by which the client logged in.
        self._found: ScramSecret | None = None
        self._secret: ScramSecret | None = None
        #: The users among which the latter was looked for last.
        self._users_seen: Mapping[str, UserSecrets] | None = None

    # The server's questions

    def check(self, api_key: int, mono_ms: int) -> None:
        """Raise MalformedRequest unless the request may start."""
        if (reason := self._why_revoked()) is not None:
            raise MalformedRequest(reason)
        if self._session.may_start(api_key, mono_ms=mono_ms):
            return
        if self._session.is_expired(mono_ms):
            self._listener.counters.expired += 1
            raise MalformedRequest("its SASL session has ended, and the client did not log in again")
        raise MalformedRequest(f"a request of API {api_key} came before the client had logged in")

    def reason_to_close(self, mono_ms: int) -> str | None:
        """Return why the connection has to be closed; None if it may stay."""
        if not (self._session.is_open or self._is_busy) and mono_ms - self._began_ms > LOGIN_MS_MAX:
            return "it did not log in in time"
        return self._why_revoked()

    def _why_revoked(self) -> str | None:
        users = self._listener.users_now()
        if self._secret is None or users is self._users_seen:
            return None
        self._users_seen = users
        if is_current(users, self._session.principal or "", self._secret):
            return None
        self._listener.counters.revoked += 1
        return "the secret of its user was changed or deleted"

    # The requests of SASL

    def handshake(self, mechanism: str, reply: Callable[[HandshakeAnswer], None]) -> None:
        """Take a SaslHandshake of v1."""
        self._mechanism = mechanism
        clock = self._listener.clock
        if self._session.is_open:
            self._began_ms = clock.mono_ms()

        def step() -> HandshakeAnswer:
            return self._session.on_handshake(mechanism, mono_ms=clock.mono_ms())

        needs_users = mechanism != Mechanism.OAUTHBEARER and not self._listener.knows_users()
        prepare = self._wait_for_users if needs_users else None
        self._start(step, self._listener.limiter, reply, prepare=prepare)

    def refuse_bare_tokens(self, reply: Callable[[HandshakeAnswer], None]) -> None:
        """Take a SaslHandshake of v0: the client would send its tokens without Kafka's frames."""
        enabled = tuple(self._listener.settings.mechanisms)
        answer = HandshakeAnswer(ErrorCode.UNSUPPORTED_VERSION, enabled, closes=True)
        self._start(lambda: answer, self._listener.limiter, reply)

    def authenticate(self, token: bytes, reply: Callable[[AuthenticateAnswer], None]) -> None:
        """Take a SaslAuthenticate."""
        listener, clock = self._listener, self._listener.clock
        is_plain = self._session.mechanism == Mechanism.PLAIN
        has_token = self._session.mechanism == Mechanism.OAUTHBEARER
        is_first = self._session.principal is None

        def step() -> AuthenticateAnswer:
            return self._session.on_authenticate(token, mono_ms=clock.mono_ms(), wall_ms=clock.wall_ms())

        def on_answer(answer: AuthenticateAnswer) -> None:
            if answer.error is ErrorCode.NONE and self._session.is_open:
                self._on_success(is_first=is_first)
            reply(answer)

        self._start(
            step,
            listener.plain_limiter if is_plain else listener.limiter,
            on_answer,
            prepare=partial(listener.issuer.prepare, token) if has_token and listener.issuer else None,
        )

    def _start(
        self,
        step: Callable[[], A],
        limiter: trio.CapacityLimiter,
        reply: Callable[[A], None],
        *,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Hold the connection, and answer when the step is done."""
        connection = self._connection
        connection.hold()
        self._is_busy = True

        async def answer_step() -> None:
            if prepare is not None:
                await prepare()
                if connection.closed:
                    return
            answer = await self._listener.threads.run(step, limiter=limiter)
            if answer.closes:
                await self._on_failure(answer)
            self._is_busy = False
            if connection.closed:
                return
            reply(answer)
            if answer.closes:
                connection.end()
            else:
                connection.release()

        async def run() -> None:
            try:
                await answer_step()
            except Exception:  # as in Connection: a bug ends this connection only
                _log.exception("connection_failed peer=%s", connection.peer)
                connection.close()

        self._listener.spawn(run)

    async def _wait_for_users(self) -> None:
        """Wait until the controller has told of the users, or close the connection: a client tries again
        after that, and not after a login that is refused."""
        listener = self._listener
        for _ in range(USERS_MS_MAX // USERS_LOOK_MS):
            await listener.clock.sleep_ms(USERS_LOOK_MS)
            if listener.knows_users():
                return
        _log.info(
            "connection_closed peer=%s cause=%s", self._connection.peer, "the users are not known here yet"
        )
        self._connection.close()

    def _on_success(self, *, is_first: bool) -> None:
        listener, connection = self._listener, self._connection
        if is_first:
            listener.counters.successes += 1
            connection.principal = f"User:{self._session.principal}"
            connection.limit_requests(listener.request_bytes_max)
        else:
            listener.counters.repeated_successes += 1
        self._secret, self._users_seen = self._found, None
        _log.debug(
            "authenticated peer=%s listener=%s mechanism=%s principal=%s",
            connection.peer,
            listener.name,
            self._mechanism,
            connection.principal,
        )

    async def _on_failure(self, answer: HandshakeAnswer | AuthenticateAnswer) -> None:
        """Count it and wait: the delay slows guessing, since the connection is not read meanwhile."""
        listener = self._listener
        if self._session.principal is None:
            listener.counters.failures += 1
        else:
            listener.counters.repeated_failures += 1
        _log.info(
            "authentication_failed peer=%s listener=%s mechanism=%s cause=%s",
            self._connection.peer,
            listener.name,
            self._mechanism[:NAME_CHARS_MAX] or "-",
            (answer.reason if isinstance(answer, AuthenticateAnswer) else "") or answer.error.name,
        )
        await listener.clock.sleep_ms(listener.settings.failure_delay_ms)

    # The exchanges, whose steps run in threads

    def _exchange(self, mechanism: Mechanism) -> ServerExchange:
        listener = self._listener
        if mechanism is Mechanism.PLAIN:
            return PlainServer(self._verify_password)
        if mechanism is Mechanism.OAUTHBEARER:
            assert listener.issuer is not None, "parse_sasl asks for it"
            return OauthbearerServer(listener.issuer.verify)
        users = listener.users()
        return ScramServer(
            mechanism,
            partial(self._find_credential, users, mechanism),
            server_nonce=base64_of(listener.rng.randbytes(NONCE_BYTES)),
            fake_salt_key=users.fake_salt_key,
            fake_iterations=partial(users.fake_iterations, mechanism),
        )

    def _verify_password(self, name: str, password: str) -> bool:
        self._found = self._listener.passwords.secret(self._listener.users(), name, password)
        return self._found is not None

    def _find_credential(
        self, users: KnownUsers, mechanism: ScramMechanism, name: str
    ) -> ScramCredential | None:
        self._found = users.secret(name, mechanism)
        return None if self._found is None else credential_of(self._found)
