"""/clusters/{cluster}/quotas"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from admin_api.http.answers import AGE_HEADERS, done, show
from admin_api.http.models import ClusterPath
from admin_api.http.paging import Paged
from admin_api.http.problems import problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from admin_api.http.writes import Asked, Write
from admin_api.quotas import service
from admin_api.quotas.models import AlterQuotasBody, EntityName, QuotasAlteredView, QuotasList
from controller.face.cluster import Entity, entity_name

router = APIRouter(route_class=StrictRoute, tags=["Quotas"])

_Named = Annotated[
    EntityName | None, Query(description="only entities with this name; `<default>`: the default")
]


@router.get(
    "/clusters/{cluster}/quotas",
    operation_id="listQuotas",
    summary="List quotas",
    response_model=QuotasList,
    responses={200: {"headers": AGE_HEADERS}, **problems("cluster_not_found")},
)
async def list_quotas(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    paging: Paged,
    user: _Named = None,
    client_id: _Named = None,
    ip: _Named = None,
) -> Response:
    """List the entities that have quotas, with them. What a name that is left out stands for does not
    matter."""
    view = services.engine.cluster(cluster)
    found, token = paging.page_of(
        (
            quotas
            for entity, quotas in view.image.quotas.items()
            if user in (None, entity.user)
            and client_id in (None, entity.client_id)
            and ip in (None, entity.ip)
        ),
        lambda quotas: (entity_name(quotas.entity),),
        name="quotas",
        kinds=(str,),
    )
    items = [service.quotas_view(view, quotas) for quotas in found]
    return show(request, QuotasList(items=items, next_page_token=token), view=view)


@router.post(
    "/clusters/{cluster}/quotas:alter",
    operation_id="alterQuotas",
    summary="Set and unset quotas",
    response_model=QuotasAlteredView,
    responses=done(
        "Done; of a dry run, as it would be",
        "cluster_not_found",
        "invalid_quota",
        "named_twice",
        "too_many_quotas",
    ),
)
async def alter_quotas(
    body: AlterQuotasBody, services: Serving, write: Write, cluster: ClusterPath
) -> Response:
    """Change all of the quotas that are named, or none; an entity without a quota is gone."""
    asked = Asked(
        cluster=cluster,
        action="alter_quotas",
        entity=Entity.QUOTAS,
        body=body.model_dump(mode="json"),
        reason=body.reason,
    )
    return await write.carry_out(asked, partial(service.alter_quotas, services, cluster, body))
