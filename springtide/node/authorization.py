"""The authorization of each request by the cluster's ACLs (KIP-11), as the client's connection has it.

While the cluster has no authorizer each request is allowed. With one, the ACLs of the moment decide, so that
a change of them acts on open connections at once. Members of the cluster may do everything.

A *member* is a peer on the inter-broker listener whose verified certificate names the host of an admitted
broker or coordinator, or of a controller of this process. A wildcard in a certificate names no host here: one
that was made for all machines of a domain would make a member of each of them.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from springtide.node.client import KnownClient
from springtide.node.counters import NodeCounters
from springtide.security.acls.cache import DecisionCache
from springtide.security.acls.model import CLUSTER_NAME, Operation, ResourceType
from springtide.security.acls.validation import host_of_peer
from springtide.wire.errors import ErrorCode

if TYPE_CHECKING:
    from springtide.contract.updates import BrokerEndpoint
    from springtide.node.cluster_view import ClusterView

_log = logging.getLogger(__name__)

DENIALS_LOGGED_MAX: Final = 10
DENIALS_LOGGED_MS: Final = 1_000
"""So many refusals are logged in this time; the others are counted."""
LOGGED_NAME_CHARS_MAX: Final = 249

DENIED: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error of a request that lacks a right on a resource of the type."""

_NO_NODE: Final = -1


class RightsHolder(KnownClient, Protocol):
    """A connection, which keeps the rights of its client."""

    rights: ClientRights | None


class Authorizer:
    """The authorizer of a process. inter_broker: the name of its inter-broker listener. controllers: URLs."""

    def __init__(
        self,
        view: ClusterView,
        *,
        inter_broker: str,
        controllers: Iterable[str],
        counters: NodeCounters,
        mono_ms: Callable[[], int],
    ) -> None:
        self.view = view
        self.inter_broker = inter_broker
        self.controllers = frozenset(_canonical(urlsplit(url).hostname or "") for url in controllers)
        self._counters = counters
        self._mono_ms = mono_ms
        self._logged = 0
        self._unlogged = 0
        self._logging_until_ms = 0

    def rights_of(self, connection: RightsHolder) -> ClientRights:
        """Return the rights of the connection's client, with the decisions that were made about it before."""
        rights = connection.rights
        if rights is None or rights.principal != connection.principal:
            rights = connection.rights = ClientRights(self, connection)
        return rights

    def on_denied(
        self, rights: ClientRights, operation: Operation, resource_type: ResourceType, name: str
    ) -> None:
        """Count and log a refusal."""
        self._counters.authorizations_denied += 1
        now_ms = self._mono_ms()
        if now_ms >= self._logging_until_ms:
            if self._unlogged:
                _log.info("authorizations_denied_unlogged count=%d", self._unlogged)
            self._logged = self._unlogged = 0
            self._logging_until_ms = now_ms + DENIALS_LOGGED_MS
        if self._logged == DENIALS_LOGGED_MAX:
            self._unlogged += 1
            return
        self._logged += 1
        _log.info(
            "authorization_denied principal=%s host=%s operation=%s resource_type=%s resource_name=%s",
            rights.principal,
            rights.host,
            operation.name,
            resource_type.name,
            name[:LOGGED_NAME_CHARS_MAX],
        )


class ClientRights:
    """The rights of the client of one connection, by the ACLs of the moment."""

    __slots__ = ("_authorizer", "_decisions", "_names", "_node_id", "host", "principal")

    def __init__(self, authorizer: Authorizer, client: KnownClient) -> None:
        self._authorizer = authorizer
        self.principal = client.principal
        self.host = host_of_peer(client.peer)
        self._decisions = DecisionCache(self.principal, self.host)
        is_inter_broker = client.listener == authorizer.inter_broker
        #: The hosts that the certificate names, where that counts.
        self._names = frozenset(map(_canonical, client.certificate_names if is_inter_broker else ()))
        #: The broker or coordinator that the certificate named the last time.
        self._node_id = _NO_NODE

    def may(
        self,
        operation: Operation,
        resource_type: ResourceType,
        name: str = CLUSTER_NAME,
        *,
        is_filter: bool = False,
    ) -> bool:
        """Return whether the client may do the operation on the resource.

        is_filter: what is refused is left out of an answer; it is not counted and logged as a refusal.
        """
        if self.is_member:
            return True
        authorizer = self._authorizer
        if self._decisions.decide(authorizer.view.acls, resource_type, name, operation).allowed:
            return True
        if not is_filter:
            authorizer.on_denied(self, operation, resource_type, name)
        return False

    def may_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether the client may do the operation on at least one resource of the type (KIP-679)."""
        view = self._authorizer.view
        return self.is_member or self._decisions.decide(view.acls, resource_type, None, operation).allowed

    def may_replicate(self) -> bool:
        """Return whether the client may fetch as a follower. Such fetches move the high watermark: no ACL
        makes up for not being a member."""
        if self.is_member:
            return True
        self._authorizer.on_denied(self, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        return False

    @property
    def is_member(self) -> bool:
        """Return whether the client is a process of this cluster."""
        names = self._names
        if not names:
            return False
        view = self._authorizer.view
        known = view.brokers.get(self._node_id) or view.coordinators.get(self._node_id)
        if known is not None and _canonical(known.host) in names:
            return True
        for node in _nodes(view):
            if _canonical(node.host) in names:
                self._node_id = node.broker_id
                return True
        return not names.isdisjoint(self._authorizer.controllers)


def describing(view: ClusterView, principal: str, peer: str) -> Callable[[str], bool]:
    """Return what says of a topic whether a client may DESCRIBE it, by the ACLs of the moment. The client
    need not be connected: a group asks for its members. A process of the cluster has its principal's rights
    here, and no more."""
    decisions = DecisionCache(principal, host_of_peer(peer))

    def may(name: str) -> bool:
        if not view.is_authorizer_on:
            return True
        return decisions.decide(view.acls, ResourceType.TOPIC, name, Operation.DESCRIBE).allowed

    return may


def _nodes(view: ClusterView) -> Iterator[BrokerEndpoint]:
    yield from view.brokers.values()
    yield from view.coordinators.values()


@lru_cache(maxsize=1_024)
def _canonical(host: str) -> str:
    """Return the form in which hosts and names of certificates are compared."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower().removesuffix(".")
