"""The REST models of webhooks. URLs and secrets are taken and never shown."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, SecretStr, StringConstraints

from admin_api.http.models import Reason, RequestBody, View, ViewList, optional_timestamp, timestamp
from controller.face.webhooks import URL_CHARS_MAX, Format, Kept, Posted, WebhookRow

HOUR_S = 3_600
WebhookName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$"),
    Field(description="small letters, digits, '_' and '-'; begins with a letter", examples=["pager"]),
]


class PutWebhook(RequestBody):
    """A URL that is told when alarms begin, change and end."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"url": "https://pager.example.com/springtide", "reason": "the night shift"}]
        }
    )

    url: SecretStr | None = Field(
        default=None, description=f"up to {URL_CHARS_MAX} characters, never shown again; left out: it stays"
    )
    secret: SecretStr | None = Field(
        default=None,
        description="`whsec_` and base64 (Standard Webhooks); left out: it stays; a new webhook gets one",
    )
    new_secret: bool = Field(default=False, description="replace the secret by one that is made")
    format: Annotated[Format, Field(strict=False)] = Field(
        default=Format.JSON, description="`slack`: for an incoming webhook of Slack's"
    )
    enabled: bool = True
    wait_s: Annotated[int, Field(ge=0, le=HOUR_S)] = Field(
        default=10, description="a shorter alarm is not told"
    )
    settle_s: Annotated[int, Field(ge=1, le=HOUR_S)] = Field(
        default=60, description="an alarm ends when it has been gone for so long"
    )
    reason: Reason | None = None

    def audited(self, name: str) -> dict[str, Any]:
        """Return what the audit keeps: of the URL only the host, of the secret that it was set."""
        kept = self.model_dump(mode="json", exclude={"url", "secret"})
        return {"webhook": name, "host": self.host, "sets_secret": self.secret is not None} | kept

    @property
    def host(self) -> str | None:
        if self.url is None:
            return None
        try:
            return urlsplit(self.url.get_secret_value()).hostname
        except ValueError:
            return None


class WebhookView(View):
    """A webhook, and how it fares."""

    name: str = Field(examples=["pager"])
    cluster: str = Field(examples=["prod"])
    host: str | None = Field(description="of its URL", examples=["pager.example.com"])
    secret: str | None = Field(
        default=None, description="only in the answer to the request that made it: keep it"
    )
    format: str
    enabled: bool
    wait_s: int
    settle_s: int
    state: str = Field(
        description="`ok`; `failing`: the last attempt failed; `off`: the receiver answered 410, and a PUT "
        "switches it on again; `disabled`",
        examples=["ok"],
    )
    last_error: str | None
    failing_since: str | None
    delivered: int
    delivered_at: str | None = Field(description="when a message was taken last")
    waiting: int = Field(description="messages to be sent")
    dropped: int = Field(description="messages given up")
    actor: str
    reason: str | None
    created_at: str
    updated_at: str


class WebhookList(ViewList[WebhookView]): ...


class WebhookTest(RequestBody):
    """A sample message is sent once, at once."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "a new receiver"}]})

    reason: Reason | None = None


class WebhookTested(View):
    """How it went. A receiver's answer is not shown beyond its status."""

    delivered: bool
    status: int | None = Field(description="null: there was no answer", examples=[204])
    detail: str | None = Field(description="why it was not delivered")


def tested(posted: Posted) -> WebhookTested:
    detail = None if posted.is_delivered else posted.why
    return WebhookTested(delivered=posted.is_delivered, status=posted.status, detail=detail)


def webhook_view(row: WebhookRow, kept: Kept, *, secret: str | None = None) -> WebhookView:
    if not row.enabled:
        state = "disabled"
    elif kept.off_revision == row.revision:
        state = "off"
    else:
        state = "ok" if kept.failing_since_ms is None else "failing"
    return WebhookView.of(
        row,
        host=urlsplit(row.url).hostname,
        secret=secret,
        wait_s=row.wait_ms // 1000,
        settle_s=row.settle_ms // 1000,
        state=state,
        last_error=kept.last_error,
        failing_since=optional_timestamp(kept.failing_since_ms),
        delivered=kept.delivered,
        delivered_at=optional_timestamp(kept.delivered_ms),
        waiting=len(kept.queue),
        dropped=kept.dropped,
        created_at=timestamp(row.created_at_ms),
        updated_at=timestamp(row.updated_at_ms),
    )
