"""Listing and changing quotas."""

from __future__ import annotations

from collections.abc import Iterator

from admin_api.http.all_or_none import Part, submit_whole
from admin_api.http.answers import Answer
from admin_api.http.models import last_change
from admin_api.http.services import Services
from admin_api.http.writes import Attempt
from admin_api.quotas.models import AlterQuotasBody, QuotasAlteredView, QuotasView
from controller.face.cluster import Entity, KnownCluster, entity_name
from controller.face.commands import AlterQuotas, QuotasAltered
from springtide.contract.administration import QuotasToAlter
from springtide.contract.security import EntityQuotas


async def alter_quotas(services: Services, cluster: str, body: AlterQuotasBody, attempt: Attempt) -> Answer:
    """Change the quotas and answer 200 with those that the entities have afterwards."""
    changes = tuple(QuotasToAlter(entity=one.entity(), quotas=one.quotas) for one in body.entities)
    event = AlterQuotas(**attempt.event, changes=changes)

    def parts(done: QuotasAltered) -> Iterator[Part]:
        return ((f"/entities/{place}", one.refusal) for place, one in enumerate(done.entities))

    done = await submit_whole(services.engine, cluster, event, QuotasAltered, parts)
    view = services.engine.cluster(cluster)
    return Answer.of(200, QuotasAlteredView(items=[quotas_view(view, one.quotas) for one in done.entities]))


def quotas_view(view: KnownCluster, quotas: EntityQuotas) -> QuotasView:
    entity = quotas.entity
    return QuotasView(
        user=entity.user,
        client_id=entity.client_id,
        ip=entity.ip,
        quotas=quotas.quotas,
        last_change=last_change(view.last_change(Entity.QUOTAS, entity_name(entity))),
    )
