"""What one message says, as JSON of Springtide's or of Slack's shape, and how it is signed.

The signature is that of Standard Webhooks 1.0.0 (github.com/standard-webhooks/standard-webhooks): the headers
webhook-id, webhook-timestamp (whole seconds since 1970) and webhook-signature, which is `v1,` and the base64
of HMAC-SHA256 over `{id}.{timestamp}.{body}`. A secret is `whsec_` and the base64 of 24 to 64 bytes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import UNSET

from controller.core.alarms import utc_text
from controller.core.silences import Subject

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - what a secret begins with, not one
SECRET_BYTES: Final = 32
SECRET_BYTES_MIN: Final = 24
SECRET_BYTES_MAX: Final = 64
#: Of an alarm's words: a message stays below the 20 kB that Standard Webhooks recommends.
DETAIL_CHARS_MAX: Final = 2_000


class MessageKind(StrEnum):
    BEGIN = "begin"
    CHANGE = "change"
    END = "end"
    #: Some messages were given up; says how many.
    DROPPED = "dropped"
    #: A sample that an operator asked for.
    TEST = "test"


class Format(StrEnum):
    JSON = "json"
    SLACK = "slack"


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message to one webhook. id: the same at each attempt. at_ms: when it was found, since_ms: when the
    alarm began; wall clock. subject: None for what is about no alarm. dropped: messages given up."""

    id: str
    event: MessageKind
    at_ms: int
    detail: str
    subject: Subject | None = None
    since_ms: int | None = None
    dropped: int = 0


def body_of(message: Message, *, cluster: str, link: str, format: Format) -> bytes:
    if format is Format.SLACK:
        return msgspec.json.encode(_slack(message, cluster=cluster, link=link))
    alarm: dict[str, Any] | None = None
    if message.subject is not None:
        alarm = msgspec.to_builtins(message.subject)
        del alarm["is_more"]
        alarm |= {
            "detail": message.detail,
            "since": None if message.since_ms is None else utc_text(message.since_ms),
        }
    found: dict[str, Any] = {
        "id": message.id,
        "event": message.event.value,
        "cluster": cluster,
        "at": utc_text(message.at_ms),
        "link": link,
        "alarm": alarm,
    }
    if message.event is MessageKind.DROPPED:
        found["dropped"] = message.dropped
    return msgspec.json.encode(found)


_SLACK_WORDS: Final = {
    MessageKind.BEGIN: "begins",
    MessageKind.CHANGE: "has changed",
    MessageKind.END: "has ended",
    MessageKind.DROPPED: "Messages were dropped",
    MessageKind.TEST: "A test",
}


def _slack(message: Message, *, cluster: str, link: str) -> dict[str, Any]:
    """Return Slack's incoming webhook payload: `text` for notifications, one section block to be read,
    whose text may have 3,000 characters."""
    about = _SLACK_WORDS[message.event]
    if message.subject is not None:
        about = f"{message.subject.code} {about}{_of(message.subject)}"
    title, detail = _escaped(f"[{cluster}] {about}")[:600], _escaped(message.detail)[:2_000]
    text = {"type": "mrkdwn", "text": f"*{title}*\n{detail}\n<{link}|Open the page>"}
    return {"text": f"{title}: {detail}", "blocks": [{"type": "section", "text": text}]}


def _of(subject: Subject) -> str:
    parts = [
        None if subject.topic is None else f"{subject.topic}-{subject.partition}",
        None if subject.broker_id is None else f"broker {subject.broker_id}",
        None if subject.group_id is None else f"group {subject.group_id}",
        None if subject.transactional_id is UNSET else f"transactional id {subject.transactional_id}",
        None if subject.producer_id is UNSET else f"producer {subject.producer_id}",
    ]
    said = ", ".join(part for part in parts if part is not None)
    return f" ({said})" if said else ""


def _escaped(text: str) -> str:
    """Return the text as Slack wants it: a name must not become a link or a mention of everyone."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def headers_of(message_id: str, body: bytes, *, secret: str, wall_ms: int) -> dict[str, str]:
    """Return the headers of one attempt, at this time."""
    seconds = wall_ms // 1000
    signed = b"%s.%d.%s" % (message_id.encode("ascii"), seconds, body)
    digest = hmac.new(key_of(secret), signed, hashlib.sha256).digest()
    return {
        "content-type": "application/json",
        "user-agent": "springtide",
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode('ascii')}",
    }


def secret_from(random: bytes) -> str:
    return SECRET_PREFIX + base64.b64encode(random).decode("ascii")


def key_of(secret: str) -> bytes:
    """Return the key; raise ValueError for a text that is no secret of Standard Webhooks."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith(SECRET_PREFIX) or not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
        raise ValueError(
            f"must be {SECRET_PREFIX} and the base64 of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} random bytes"
        )
    return key
