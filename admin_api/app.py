"""The FastAPI application, built from the parts that the composition root gives it.

Nothing is global and nothing is started here. The composition root runs `app.state.operations.run` and
`app.state.notifier.run` beside the engine and the outbox.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Gauge

from admin_api.acls import routes as acls
from admin_api.audit import placement, receipts, verifications
from admin_api.audit import routes as history
from admin_api.brokers import routes as brokers
from admin_api.clusters import heat_map, resilience
from admin_api.clusters import routes as clusters
from admin_api.configs import changes as config_changes
from admin_api.configs import routes as configs
from admin_api.console.routes import create_console_router, create_docs_router
from admin_api.coordinators import routes as coordinators
from admin_api.groups import routes as groups
from admin_api.health import router as health_router
from admin_api.health import text_router as metrics_router
from admin_api.history import routes as last_hour
from admin_api.http.gate import Gate, HttpMetrics
from admin_api.http.problems import install_problem_handlers
from admin_api.http.routes import TextRoute
from admin_api.http.services import Services
from admin_api.http.tokens import Tokens
from admin_api.kafka_calls.routes import create_kafka_calls_router
from admin_api.openapi.schema import DESCRIPTION, TAGS, TITLE, complete_schema
from admin_api.operations import events as operation_events
from admin_api.operations import routes as operation_routes
from admin_api.operations.events import OperationFeed
from admin_api.partitions import record_deletions, replication
from admin_api.partitions import routes as partitions
from admin_api.plans import approvals
from admin_api.plans import routes as plans
from admin_api.plans import undoing as plan_undoing
from admin_api.policies import routes as policies
from admin_api.quotas import routes as quotas
from admin_api.reassignments import routes as reassignments
from admin_api.records import routes as records
from admin_api.records.rooms import RecordRooms, Rooms
from admin_api.settings import ApiSettings
from admin_api.topics import deleted as deleted_topics
from admin_api.topics import missing
from admin_api.topics import routes as topics
from admin_api.transactions import routes as transactions
from admin_api.users import routes as users
from admin_api.webhooks import routes as webhooks
from admin_api.webhooks import silences
from controller.face.cluster import Engine
from controller.face.database import Database
from controller.face.groups import ClientGroups
from controller.face.history import AuditOutbox
from controller.face.operations import OperationsRunner
from controller.face.surroundings import (
    ControllerClock,
    EngineCollector,
    Ids,
    RandomBytes,
    create_routers,
)
from controller.face.transactions import ClientTransactions
from controller.face.webhooks import HttpPost, Notifier, WebhookCollector
from springtide.version import VERSION

if TYPE_CHECKING:
    from admin_api.http.oidc import OidcIssuer


def create_app(
    *,
    engine: Engine,
    database: Database,
    outbox: AuditOutbox,
    client_groups: ClientGroups,
    client_transactions: ClientTransactions,
    rooms: Rooms | None = None,
    settings: ApiSettings,
    clock: ControllerClock,
    random_bytes: RandomBytes,
    tokens: Tokens | None = None,
    issuer: OidcIssuer | None = None,
) -> FastAPI:
    """Return the application.

    tokens: who may send requests; if None, every client that reaches the controller.
    rooms: where records are read; None: over brokers' listeners without TLS only.
    issuer: of tokens beside those; its `run` is the caller's to start.
    """
    registry = CollectorRegistry()
    registry.register(EngineCollector(engine))
    operations = OperationsRunner(
        engine=engine,
        store=database,
        clock=clock,
        wake_ms=settings.operation_wake_ms,
        sizes_wait_ms=settings.sizes_wait_ms,
    )
    notifier = Notifier(
        engine=engine,
        store=database,
        clock=clock,
        random_bytes=random_bytes,
        post=HttpPost(),
        allowed_hosts=settings.webhook_hosts,
    )
    registry.register(WebhookCollector(notifier))
    services = Services(
        engine=engine,
        database=database,
        outbox=outbox,
        operations=operations,
        notifier=notifier,
        groups=client_groups,
        transactions=client_transactions,
        settings=settings,
        clock=clock,
        ids=Ids(random_bytes),
        random_bytes=random_bytes,
        tokens=tokens,
    )
    app = FastAPI(
        title=TITLE,
        version=VERSION,
        description=DESCRIPTION,
        openapi_tags=TAGS,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        swagger_ui_oauth2_redirect_url=None,
    )
    app.state.services = services
    app.state.settings = settings
    app.state.registry = registry
    app.state.operations = operations
    app.state.notifier = notifier
    app.state.feed = OperationFeed(services)
    app.state.rooms = rooms or RecordRooms()
    routers = (
        *create_routers(engine),  # routes are tried in order; brokers send most requests
        create_kafka_calls_router(has_tokens=tokens is not None),
        clusters.router,
        brokers.router,
        coordinators.router,
        groups.router,
        transactions.router,
        last_hour.router,
        heat_map.router,
        topics.router,
        records.router,
        missing.router,
        deleted_topics.router,
        configs.router,
        config_changes.router,
        acls.router,
        users.router,
        quotas.router,
        partitions.router,
        record_deletions.router,
        reassignments.router,
        plans.router,
        approvals.router,
        policies.router,
        webhooks.router,
        silences.router,
        plan_undoing.router,
        placement.router,
        resilience.router,
        replication.router,
        operation_routes.router,
        operation_events.router,
        receipts.router,
        verifications.router,
        history.router,
        health_router,
        metrics_router,
        create_console_router(),
        create_docs_router(title=TITLE),
        _document_router(),
    )
    # The routes are added directly. `include_router` would analyse each route's parameters again, which takes
    # about a second in all and would delay the first request to a controller.
    app.router.routes.extend(route for router in routers for route in router.routes)
    install_problem_handlers(app)
    complete_schema(app)
    _watch(services, app.state.feed, registry)
    app.add_middleware(
        Gate,
        settings=settings,
        tokens=tokens,
        issuer=issuer,
        clock=clock,
        ids=services.ids,
        metrics=HttpMetrics(registry),
    )
    return app


def _document_router() -> APIRouter:
    router = APIRouter(route_class=TextRoute, include_in_schema=False)

    @router.get("/openapi.json")
    async def get_document(request: Request) -> Response:
        return JSONResponse(request.app.openapi())

    return router


def _watch(services: Services, feed: OperationFeed, registry: CollectorRegistry) -> None:
    outbox, operations = services.outbox, services.operations
    gauges = (
        ("springtide_audit_outbox_depth", "Changes that are not in SQL yet.", lambda: outbox.depth),
        ("springtide_audit_behind_clusters", "Clusters waiting for a back-fill.", lambda: len(outbox.behind)),
        ("springtide_audit_dropped", "Changes that did not fit the queue.", lambda: outbox.dropped),
        ("springtide_audit_rejected", "Rows that SQL refused for good.", lambda: outbox.rejected),
        ("springtide_operations_running", "Unfinished operations.", lambda: len(operations.running())),
        ("springtide_event_streams", "Event streams that are open.", lambda: feed.open_streams),
    )
    for name, text, value in gauges:
        Gauge(name, text, registry=registry).set_function(value)
