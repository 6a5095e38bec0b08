"""The parts that the application is composed of, and how a request reaches them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Header, Request

from admin_api.http.gate import PRINCIPAL_SCOPE_KEY
from admin_api.http.guard import check_right
from admin_api.http.permits import DeedPermits
from admin_api.http.problems import REQUEST_ID_SCOPE_KEY, FieldProblem, ProblemError
from admin_api.http.rights import Right, gives
from admin_api.http.tokens import Principal, Tokens
from admin_api.settings import ApiSettings
from controller.face.cluster import Engine
from controller.face.database import Database
from controller.face.groups import ClientGroups
from controller.face.history import AuditOutbox
from controller.face.operations import OperationsRunner
from controller.face.surroundings import ControllerClock, Ids, RandomBytes
from controller.face.transactions import ClientTransactions
from controller.face.webhooks import Notifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts that every route gets. Nothing in it is global: several controllers may run in one
    process."""

    engine: Engine
    database: Database
    outbox: AuditOutbox
    operations: OperationsRunner
    notifier: Notifier
    groups: ClientGroups
    transactions: ClientTransactions
    settings: ApiSettings
    clock: ControllerClock
    ids: Ids
    random_bytes: RandomBytes
    #: None where tokens are not used.
    tokens: Tokens | None = None
    permits: DeedPermits = field(default_factory=DeedPermits)


async def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. With a token, it is the token's name. Without a token, the address is a fact
    and the name a claim; the audit has both and marks the claim."""

    actor: str
    request_id: str
    #: None where tokens are not used: every client may then send any request.
    principal: Principal | None = None

    def has(self, right: Right) -> bool:
        """Return whether the caller's role gives the right."""
        return self.principal is None or gives(self.principal.role, right)

    def need(self, request: Request, right: Right, cluster: str | None) -> None:
        """Raise forbidden unless the caller's role, or an ACL of the cluster, gives the right."""
        if self.principal is not None:
            check_right(request, self.principal, right, cluster)


async def caller_of(
    request: Request,
    x_actor: Annotated[
        str | None,
        Header(
            pattern=r"^[A-Za-z0-9._@+-]+$",
            min_length=1,
            max_length=64,
            description=(
                "Who is asking, where no tokens are used: the audit records it as an unverified claim, "
                "together with the client's address. A token names its holder, and no other name is taken."
            ),
            examples=["alice"],
        ),
    ] = None,
) -> Caller:
    request_id = request.scope[REQUEST_ID_SCOPE_KEY]
    principal: Principal | None = request.scope.get(PRINCIPAL_SCOPE_KEY)
    if principal is not None:
        if x_actor not in (None, principal.name):
            error = FieldProblem(header="X-Actor", message=f"the token is {principal.name}'s")
            raise ProblemError("invalid_request", f"X-Actor: {error.message}", errors=(error,))
        return Caller(principal.name, request_id, principal)
    address = request.client.host if request.client is not None else "unknown"
    name = "anonymous" if x_actor is None else f"unverified:{x_actor}"
    return Caller(f"{name}@{address}", request_id)


Serving = Annotated[Services, Depends(services_of)]
Asking = Annotated[Caller, Depends(caller_of)]
