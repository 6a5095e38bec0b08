"""/clusters/{cluster}/webhooks"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from admin_api.http.answers import ETAG_HEADERS, LOCATION_HEADERS, show
from admin_api.http.conditions import IfMatch
from admin_api.http.models import ClusterPath, ReasonQuery
from admin_api.http.paging import Paged
from admin_api.http.problems import CONDITION_PROBLEMS, WRITE_PROBLEMS, problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from admin_api.http.writes import Asked, Write
from admin_api.webhooks import service
from admin_api.webhooks.models import (
    PutWebhook,
    WebhookList,
    WebhookName,
    WebhookTest,
    WebhookTested,
    WebhookView,
)
from controller.face.webhooks import list_webhooks

router = APIRouter(route_class=StrictRoute, tags=["Webhooks"])

WebhookPath = Annotated[WebhookName, Path(description="the webhook's name", examples=["pager"])]
_ABSENT = ("cluster_not_found", "webhook_not_found", "audit_unavailable")


@router.get(
    "/clusters/{cluster}/webhooks",
    operation_id="listWebhooks",
    summary="List webhooks and how they fare",
    response_model=WebhookList,
    responses=problems("cluster_not_found", "audit_unavailable"),
)
async def list_them(request: Request, services: Serving, cluster: ClusterPath, paging: Paged) -> Response:
    """List the cluster's webhooks, without their URLs and secrets."""
    services.engine.cluster(cluster)
    rows = await services.database.read(list_webhooks, cluster=cluster)
    page, token = paging.page_of(rows, lambda row: (row.name,), name="webhooks", kinds=(str,))
    items = [service.view_of(services, row) for row in page]
    return show(request, WebhookList(items=items, next_page_token=token))


@router.get(
    "/clusters/{cluster}/webhooks/{name:word}",
    operation_id="getWebhook",
    summary="Look at a webhook",
    response_model=WebhookView,
    responses={200: {"headers": ETAG_HEADERS}, **problems(*_ABSENT)},
)
async def get_it(request: Request, services: Serving, cluster: ClusterPath, name: WebhookPath) -> Response:
    """Show a webhook's settings, and how its messages fare."""
    services.engine.cluster(cluster)
    row = await service.find_webhook(services, cluster, name)
    return show(request, service.view_of(services, row), version=str(row.revision))


@router.put(
    "/clusters/{cluster}/webhooks/{name:word}",
    operation_id="putWebhook",
    summary="Write a webhook",
    response_model=WebhookView,
    responses={
        200: {"headers": ETAG_HEADERS},
        201: {
            "model": WebhookView,
            "description": "It is new",
            "headers": {"Location": LOCATION_HEADERS["Location"]} | ETAG_HEADERS,
        },
        **problems(
            "cluster_not_found",
            "too_many_webhooks",
            "audit_unavailable",
            "overloaded",
            *CONDITION_PROBLEMS,
            *WRITE_PROBLEMS,
        ),
    },
)
async def put_it(
    *,
    body: PutWebhook,
    services: Serving,
    write: Write,
    condition: IfMatch,
    cluster: ClusterPath,
    name: WebhookPath,
) -> Response:
    """Create or change a webhook, whose URL is then sent the cluster's alarms, signed as Standard Webhooks
    says. Requires the role admin: the controller connects to the address that the URL names."""
    asked = Asked(cluster=cluster, action="put_webhook", body=body.audited(name), reason=body.reason)
    work = partial(service.write_webhook, services, cluster, name, body=body, condition=condition)
    return await write.without_key().carry_out(asked, work)


@router.post(
    "/clusters/{cluster}/webhooks/{name:word}:test",
    operation_id="testWebhook",
    summary="Send a sample message",
    response_model=WebhookTested,
    responses=problems(*_ABSENT, *WRITE_PROBLEMS),
)
async def test_it(
    body: WebhookTest, services: Serving, write: Write, cluster: ClusterPath, name: WebhookPath
) -> Response:
    """Send a sample message once, and tell how that went. Requires the role admin."""
    asked = Asked(cluster=cluster, action="test_webhook", body={"webhook": name}, reason=body.reason)
    return await write.carry_out(asked, partial(service.test_webhook, services, cluster, name))


@router.delete(
    "/clusters/{cluster}/webhooks/{name:word}",
    operation_id="deleteWebhook",
    summary="Delete a webhook",
    response_model=WebhookView,
    responses=problems(*_ABSENT, "overloaded", *CONDITION_PROBLEMS, *WRITE_PROBLEMS),
)
async def delete_it(
    *,
    services: Serving,
    write: Write,
    condition: IfMatch,
    cluster: ClusterPath,
    name: WebhookPath,
    reason: ReasonQuery = None,
) -> Response:
    """Delete a webhook, with the messages that wait; answer with it as it was. Requires the role admin."""
    asked = Asked(cluster=cluster, action="delete_webhook", body={"webhook": name}, reason=reason)
    work = partial(service.remove_webhook, services, cluster, name, condition=condition)
    return await write.carry_out(asked, work)
