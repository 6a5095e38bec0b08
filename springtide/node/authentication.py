"""Who the clients of a process are: each listener's certificates and, on those that have it, SASL."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import trio
from prometheus_client.metrics_core import CounterMetricFamily, Metric

from springtide.contract.security import UserSecrets
from springtide.node.clock import Clock
from springtide.node.cluster_view import ClusterView
from springtide.node.connection import Connection
from springtide.node.core.known_users import KnownUsers, VerifiedPasswords
from springtide.node.listeners import ListenersSettings
from springtide.node.sasl_connection import STEPS_AT_ONCE, SaslConnection, SaslListener
from springtide.node.sasl_counters import SaslCounters, collect_sasl
from springtide.node.sasl_settings import IssuerSettings
from springtide.node.threads import Threads
from springtide.security.principal_rules import DEFAULT_RULES

if TYPE_CHECKING:
    from springtide.node.jwks import IssuerKeys

PROCESS_KEY_BYTES = 32


class Authentication:
    """See the module. request_bytes_max: of a client that has logged in."""

    def __init__(
        self,
        listeners: ListenersSettings,
        *,
        view: ClusterView,
        is_view_complete: Callable[[], bool],
        clock: Clock,
        threads: Threads,
        rng: random.Random,
        request_bytes_max: int,
        spawn: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> None:
        self._view = view
        self._known = KnownUsers({}, "")
        self._rules = {one.name: one.principal_rules for one in listeners.all if one.sasl is None}
        self._sasl: dict[str, SaslListener] = {}
        #: Listeners that take the same tokens share the keys.
        self.issuers: dict[IssuerSettings, IssuerKeys] = {}
        with_sasl = [(one.name, one.sasl) for one in listeners.all if one.sasl is not None]
        if not with_sasl:
            return
        passwords = VerifiedPasswords(rng.randbytes(PROCESS_KEY_BYTES))
        plain_limiter, limiter = trio.CapacityLimiter(STEPS_AT_ONCE), trio.CapacityLimiter(STEPS_AT_ONCE)
        for name, sasl in with_sasl:
            if sasl.issuer is not None and sasl.issuer not in self.issuers:
                from springtide.node.jwks import IssuerKeys  # noqa: PLC0415 - memory that only tokens need

                self.issuers[sasl.issuer] = IssuerKeys(sasl.issuer, clock, threads)
            self._sasl[name] = SaslListener(
                name=name,
                settings=sasl,
                knows_users=is_view_complete,
                users_now=self._users_now,
                users=self._known_users,
                passwords=passwords,
                issuer=None if sasl.issuer is None else self.issuers[sasl.issuer],
                request_bytes_max=request_bytes_max,
                counters=SaslCounters(),
                plain_limiter=plain_limiter,
                limiter=limiter,
                clock=clock,
                threads=threads,
                rng=rng,
                spawn=spawn,
            )

    def begin(self, connection: Connection) -> None:
        """Take a connection that is accepted: its time to log in begins, whether its client speaks or not."""
        listener = self._sasl.get(connection.listener)
        if listener is not None:
            connection.sasl = SaslConnection(listener, connection)
            connection.limit_requests(min(listener.request_bytes_max, listener.settings.request_bytes_max))

    def identify(self, connection: Connection) -> None:
        """Take a connection's first bytes: its TLS handshake is over. Raise CertificateUnusable."""
        certificate = connection.certificate
        if certificate is not None:
            from springtide.security.certificates import names_of_client  # noqa: PLC0415 - loaded with TLS

            names = names_of_client(certificate, self._rules.get(connection.listener, DEFAULT_RULES))
            connection.certificate_names = names.alternative
            if connection.sasl is None:
                connection.principal = f"User:{names.principal}"

    def collect(self) -> Iterator[Metric]:
        if self._sasl:
            yield from collect_sasl({name: one.counters for name, one in self._sasl.items()})
        if self.issuers:
            failures = Counter[str]()
            for settings, keys in self.issuers.items():
                failures[settings.rules.issuer] += keys.failures
            family = CounterMetricFamily(
                "springtide_jwks_fetches_failed",
                "Fetches of an issuer's keys that brought no usable ones",
                labels=["issuer"],
            )
            for issuer, count in failures.items():
                family.add_metric([issuer], count)
            yield family

    def _users_now(self) -> Mapping[str, UserSecrets]:
        return self._view.users

    def _known_users(self) -> KnownUsers:
        """Return the users of the cluster's state now. It may run in threads, and takes a moment after a
        change."""
        users, known = self._view.users, self._known
        if known.users is not users:
            known = self._known = KnownUsers(users, self._view.cluster_id or "", self._view.unknown_users)
        return known
