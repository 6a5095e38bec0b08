"""What the application was composed from, and how a request reaches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Request

from admin_api.envelope import REQUEST_ID_SCOPE_KEY
from admin_api.operations.runner import OperationsRunner
from admin_api.ports import EnginePort
from admin_api.settings import ApiSettings
from controller.audit.outbox import AuditOutbox
from controller.audit.store import AuditStore
from controller.shell.clock import Clock, Ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Handed to every route. Nothing in it is global: several controllers may live in one process."""

    engine: EnginePort
    audit: AuditStore
    outbox: AuditOutbox
    operations: OperationsRunner
    settings: ApiSettings
    clock: Clock
    ids: Ids


async def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as far as it can be told before there is authentication: the address is a fact, the name a
    claim. Both stand in the audit, the claim marked as one."""

    actor: str
    request_id: str


async def caller_of(
    request: Request,
    x_actor: Annotated[
        str | None,
        Header(
            pattern=r"^[A-Za-z0-9._@+-]+$",
            min_length=1,
            max_length=64,
            description=(
                "Who is asking. Not verified in this release: the audit records it as a claim, "
                "together with the client's address."
            ),
            examples=["alice"],
        ),
    ] = None,
) -> Caller:
    address = request.client.host if request.client is not None else "unknown"
    name = "anonymous" if x_actor is None else f"unverified:{x_actor}"
    return Caller(actor=f"{name}@{address}", request_id=request.scope[REQUEST_ID_SCOPE_KEY])


Serving = Annotated[Services, Depends(services_of)]
Asking = Annotated[Caller, Depends(caller_of)]
