"""What clients use is charged to their quotas, and a client above one is made to wait (KIP-13, KIP-124).

As in Kafka since KIP-219, the answer leaves at once and tells the wait, and the connection is not read from
until it is over. A client that does not wait by itself gains nothing: its requests stay in the socket.

Members of the cluster are not counted: followers, coordinators and controllers must keep up. With an
authorizer they are known by their certificates, else by the inter-broker listener and their client ids. Then
clients should have another listener, for a client can take such an id.

Nothing is measured while the cluster has no quotas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from springtide.node.core.quota_limits import NAME_CHARS_MAX, Limit, Limits, QuotaName
from springtide.node.core.quota_sensors import MutationBucket, SampleWindow, Sensors, Usage
from springtide.security.acls.model import ANONYMOUS
from springtide.security.acls.validation import host_of_peer
from springtide.wire.apis import ApiKey

if TYPE_CHECKING:
    from springtide.contract.security import EntityQuotas, QuotaEntity
    from springtide.node.authorization import ClientRights
    from springtide.node.cluster_view import ClusterView
    from springtide.node.connection import Connection

_USER: Final = "User:"
_MEMBERS: Final = re.compile(r"(broker|coordinator)-[0-9]+(-scrub)?|preflight|springtide-controller")
"""The client ids of processes of the cluster."""
_PERCENT_US: Final = 10_000
"""A core's percent-second."""


class ClientQuotas:
    """The quotas of a process.

    inter_broker: the name of its inter-broker listener. has_others: whether it has more listeners; then
    clients do not use that one.
    """

    def __init__(
        self,
        view: ClusterView,
        *,
        window: SampleWindow,
        inter_broker: str,
        has_others: bool,
        mono_ms: Callable[[], int],
        mono_us: Callable[[], int],
    ) -> None:
        self.window = window
        self.mono_ms = mono_ms
        self.mono_us = mono_us
        self._view = view
        self._inter_broker = inter_broker
        self._has_others = has_others
        self._told: Mapping[QuotaEntity, EntityQuotas] = {}
        self._limits = Limits({})
        self.usage: dict[QuotaName, Sensors[Usage]] = {
            name: Sensors(lambda: Usage(window))
            for name in QuotaName
            if name is not QuotaName.CONTROLLER_MUTATION_RATE
        }
        self.buckets: Sensors[MutationBucket] = Sensors(lambda: MutationBucket(window))

    @property
    def limits(self) -> Limits:
        """Return the limits of the moment. The view has another mapping after each change."""
        if self._view.quotas is not self._told:
            self._told = self._view.quotas
            self._limits = Limits(self._told)
        return self._limits

    def open(
        self, connection: Connection, rights: ClientRights | None, api_key: int, request_bytes: int
    ) -> Account | None:
        """Return the account of a request that begins now, None for one of a member of the cluster, or of a
        client that has yet to log in. What Produce brings is charged at once.

        rights: what the client may do; None: there is no authorizer.
        """
        if self._has_name_of_member(connection) if rights is None else rights.is_member:
            return None
        if connection.sasl is not None and connection.principal == ANONYMOUS:
            return None
        account = Account(self, connection)
        if api_key == ApiKey.PRODUCE:
            account.charge(QuotaName.PRODUCER_BYTE_RATE, request_bytes)
        return account

    def _has_name_of_member(self, connection: Connection) -> bool:
        client_id = connection.client_id
        return (
            client_id is not None
            and connection.listener == self._inter_broker
            and _MEMBERS.fullmatch(client_id) is not None
        )

    def connection_delay_ms(self, peer: str, listener: str) -> int:
        """Count a new connection and return 0, or do not count it because its address is above its rate, and
        return the time after which it is closed (KIP-612): at once, it would be there again at once."""
        if not self._view.quotas or (self._has_others and listener == self._inter_broker):
            return 0
        limit = self.limits.of_address(host_of_peer(peer))
        if limit is None:
            return 0
        now_ms = self.mono_ms()
        usage = self.usage[QuotaName.CONNECTION_CREATION_RATE].of(limit.key, now_ms)
        usage.add(1, now_ms)
        delay_ms = min(usage.delay_ms(limit.value, now_ms), self.window.sample_ms)
        if delay_ms:
            usage.add(-1, now_ms)
            usage.on_throttled(delay_ms, now_ms)
        return delay_ms


class Account:
    """One request of a client while it is answered: what it uses is charged, and its connection muted."""

    __slots__ = ("_client_id", "_connection", "_limits", "_quotas", "_since_us", "_time", "_user")

    def __init__(self, quotas: ClientQuotas, connection: Connection) -> None:
        self._quotas = quotas
        self._limits = quotas.limits
        self._connection = connection
        self._user = connection.principal.removeprefix(_USER)[:NAME_CHARS_MAX]
        self._client_id = (connection.client_id or "")[:NAME_CHARS_MAX]
        self._time = self._limit(QuotaName.REQUEST_PERCENTAGE)
        #: Since when the loop's time is not charged yet; None once the handler has returned.
        self._since_us = None if self._time is None else quotas.mono_us()

    def charge(self, name: QuotaName, amount: float) -> None:
        """Charge the client, and mute the connection if that is more than its quota."""
        limit = self._limit(name)
        if limit is not None:
            self._charge(name, limit, amount)

    def is_over(self, name: QuotaName) -> bool:
        """Return whether the client is above its quota already. If so, mute the connection."""
        limit = self._limit(name)
        return limit is not None and self._charge(name, limit, 0) > 0

    def window_max(self, name: QuotaName) -> float | None:
        """Return what a client may use within one window; None: it has no quota."""
        limit = self._limit(name)
        return None if limit is None else limit.value * self._quotas.window.whole_ms / 1_000

    def may_mutate(self, partitions: int, *, is_strict: bool) -> bool:
        """Charge the creation or deletion of partitions. Where that is strict, return False, and charge
        nothing, if the client has to wait (KIP-599)."""
        limit = self._limit(QuotaName.CONTROLLER_MUTATION_RATE)
        if limit is None:
            return True
        now_ms = self._quotas.mono_ms()
        bucket = self._quotas.buckets.of(limit.key, now_ms)
        is_refused = is_strict and bucket.tokens(limit.value, now_ms) < 0
        if not is_refused:
            bucket.take(partitions, limit.value, now_ms)
        delay_ms = bucket.delay_ms(limit.value, now_ms)
        if delay_ms and (is_refused or not is_strict):
            self._connection.mute(now_ms + delay_ms)
        return not is_refused

    def throttle_time_ms(self) -> int:
        """Return for how long the client has to wait, told by the answer that is made now."""
        self._charge_time()
        return max(0, self._connection.muted_until_ms - self._quotas.mono_ms())

    def end(self) -> None:
        """Note that the handler has returned."""
        self._charge_time()
        self._since_us = None

    def _limit(self, name: QuotaName) -> Limit | None:
        return self._limits.of_client(name, self._user, self._client_id)

    def _charge_time(self) -> None:
        """Charge the loop's time. One sample is the longest wait for it (KIP-124)."""
        if self._time is not None and self._since_us is not None:
            now_us = self._quotas.mono_us()
            percent = (now_us - self._since_us) / _PERCENT_US
            self._since_us = now_us
            delay_ms_max = self._quotas.window.sample_ms
            self._charge(QuotaName.REQUEST_PERCENTAGE, self._time, percent, delay_ms_max=delay_ms_max)

    def _charge(
        self, name: QuotaName, limit: Limit, amount: float, *, delay_ms_max: int | None = None
    ) -> int:
        now_ms = self._quotas.mono_ms()
        usage = self._quotas.usage[name].of(limit.key, now_ms)
        usage.add(amount, now_ms)
        delay_ms = usage.delay_ms(limit.value, now_ms)
        if delay_ms_max is not None:
            delay_ms = min(delay_ms, delay_ms_max)
        if delay_ms:
            usage.on_throttled(delay_ms, now_ms)
            self._connection.mute(now_ms + delay_ms)
        return delay_ms
