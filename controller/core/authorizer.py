"""The condition under which ACLs may decide: the cluster's own processes are told from clients.

They are known by their certificates, and may do everything. So each admitted broker and coordinator must be
reached over TLS by the others; else the authorizer is not switched on. While it is on, none without TLS
registers or is admitted. It can be switched off at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from controller.core.events import Refusal, RefusalCode
from controller.core.image import ClusterImage
from controller.core.records import Member
from springtide.contract.security import is_authorizer_on
from springtide.contract.session import ListenerAddress, RegisterRequest

_TLS: Final = ("SSL", "SASL_SSL")
HINT: Final = "give its inter.broker.listener.name a listener of protocol SSL, and start it again"


def check_switched_on(image: ClusterImage, configs: Mapping[str, str]) -> Refusal | None:
    """Refuse settings that switch the authorizer on, unless all members have TLS."""
    if is_authorizer_on(image.configs) or not is_authorizer_on(configs):
        return None
    members: list[Member] = [*image.brokers.values(), *image.coordinators.values()]
    return _check(member for member in members if member.admitted)


def check_admission(image: ClusterImage, members: Iterable[Member]) -> Refusal | None:
    return _check(members) if is_authorizer_on(image.configs) else None


def registration_fault(image: ClusterImage, request: RegisterRequest) -> str | None:
    if not is_authorizer_on(image.configs) or _has_tls(request.host, request.port, request.listeners):
        return None
    return f"{_without_tls(request.broker_id, request.host, request.port)}: {HINT}"


def _check(members: Iterable[Member]) -> Refusal | None:
    for member in members:
        if not _has_tls(member.host, member.port, member.listeners):
            return Refusal(
                code=RefusalCode.BROKER_WITHOUT_TLS,
                detail=_without_tls(member.member_id, member.host, member.port),
                hint=HINT,
            )
    return None


def _has_tls(host: str, port: int, listeners: Mapping[str, ListenerAddress]) -> bool:
    """Return whether the address by which other processes reach this one is that of a listener with TLS."""
    return any((one.host, one.port) == (host, port) and one.protocol in _TLS for one in listeners.values())


def _without_tls(member_id: int, host: str, port: int) -> str:
    what = "the authorizer needs TLS between the cluster's processes"
    return f"{what}, and {member_id} has none at {host}:{port}"
