"""Writing, testing and deleting webhooks. The route checks the role."""

from __future__ import annotations

from pydantic import SecretStr

from admin_api.http.answers import Answer
from admin_api.http.conditions import Precondition
from admin_api.http.problems import FieldProblem, ProblemError
from admin_api.http.services import Services
from admin_api.http.writes import Attempt, first_revision
from admin_api.webhooks.models import PutWebhook, WebhookTested, WebhookView, tested, webhook_view
from controller.face.commands import Overloaded
from controller.face.webhooks import (
    SECRET_BYTES,
    WEBHOOKS_MAX,
    WebhookRow,
    check_url,
    delete_webhook,
    get_webhook,
    key_of,
    list_webhooks,
    put_webhook,
    secret_from,
)


async def find_webhook(services: Services, cluster: str, name: str) -> WebhookRow:
    """Return the webhook; raise webhook_not_found if it does not exist."""
    row = await services.database.read(get_webhook, cluster=cluster, name=name)
    if row is None:
        raise ProblemError("webhook_not_found", f"cluster {cluster!r} has no webhook {name!r}")
    return row


def view_of(services: Services, row: WebhookRow, *, secret: str | None = None) -> WebhookView:
    return webhook_view(row, services.notifier.kept_of(row), secret=secret)


async def write_webhook(
    services: Services,
    cluster: str,
    name: str,
    attempt: Attempt,
    *,
    body: PutWebhook,
    condition: Precondition,
) -> Answer:
    """Write the webhook. Answer 201 for a new one, 200 for a change. A secret that was made is in the answer,
    and in no other."""
    before = await services.database.read(get_webhook, cluster=cluster, name=name)
    condition.check(None if before is None else str(before.revision), what=f"webhook {name}")
    url = _url(services, body, before)
    secret, made = _secret(services, body, before)
    row = WebhookRow(
        cluster=cluster,
        name=name,
        uid=services.ids.new_id() if before is None else before.uid,
        url=url,
        secret=secret,
        format=body.format.value,
        enabled=body.enabled,
        wait_ms=body.wait_s * 1000,
        settle_ms=body.settle_s * 1000,
        actor=attempt.actor,
        reason=attempt.reason,
        created_at_ms=attempt.wall_ms if before is None else before.created_at_ms,
        updated_at_ms=attempt.wall_ms,
        revision=first_revision(attempt.seed) if before is None else before.revision + 1,
        state={} if before is None else before.state,
    )
    if attempt.dry_run:
        return Answer.of(200, view_of(services, row))
    if not await services.database.write(put_webhook, row=row, replaces=before):
        there = await services.database.read(list_webhooks, cluster=cluster)
        if before is None and len(there) >= WEBHOOKS_MAX:
            raise ProblemError("too_many_webhooks", f"a cluster may have {WEBHOOKS_MAX} webhooks")
        raise Overloaded("another request has written this webhook at this moment")
    services.notifier.wake()
    return Answer.of(
        201 if before is None else 200,
        view_of(services, row, secret=made),
        version=str(row.revision),
        **({"Location": f"/clusters/{cluster}/webhooks/{name}"} if before is None else {}),
    )


def _url(services: Services, body: PutWebhook, before: WebhookRow | None) -> str:
    if body.url is None:
        if before is None:
            raise _invalid("/url", "is needed: the webhook is new")
        return before.url
    try:
        check_url(body.url.get_secret_value(), services.notifier.allowed_hosts)
    except ValueError as error:
        raise _invalid("/url", str(error)) from None
    return body.url.get_secret_value()


def _secret(services: Services, body: PutWebhook, before: WebhookRow | None) -> tuple[str, str | None]:
    """Return the secret, and the same again if it was made here."""
    if body.secret is not None:
        if body.new_secret:
            raise _invalid("/new_secret", "can't go with a secret")
        return _checked(body.secret), None
    if before is not None and not body.new_secret:
        return before.secret, None
    made = secret_from(services.random_bytes(SECRET_BYTES))
    return made, made


def _checked(secret: SecretStr) -> str:
    try:
        key_of(secret.get_secret_value())
    except ValueError as error:
        raise _invalid("/secret", str(error)) from None
    return secret.get_secret_value()


def _invalid(pointer: str, message: str) -> ProblemError:
    field = FieldProblem(pointer=pointer, message=message)
    return ProblemError("invalid_request", f"{pointer[1:]}: {message}", errors=(field,))


async def test_webhook(services: Services, cluster: str, name: str, attempt: Attempt) -> Answer:
    """Send a sample; a dry run sends none."""
    row = await find_webhook(services, cluster, name)
    if attempt.dry_run:
        return Answer.of(200, WebhookTested(delivered=False, status=None, detail="a dry run sends nothing"))
    return Answer.of(200, tested(await services.notifier.test(row)))


async def remove_webhook(
    services: Services, cluster: str, name: str, attempt: Attempt, *, condition: Precondition
) -> Answer:
    """Delete the webhook and what waits for it; answer with the webhook as it was."""
    row = await find_webhook(services, cluster, name)
    condition.check(str(row.revision), what=f"webhook {name}")
    if not attempt.dry_run:
        if not await services.database.write(delete_webhook, row=row):
            raise Overloaded("another request has written this webhook at this moment")
        services.notifier.wake()
    return Answer.of(200, view_of(services, row))
