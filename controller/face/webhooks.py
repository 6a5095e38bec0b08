"""Webhooks and silences: what is told to whom, and of what nothing is told."""

from __future__ import annotations

from controller.core.effects import AlarmCode
from controller.core.silences import SILENCE_MS_MAX, SILENCES_MAX, Silence, silence_of
from controller.database.webhook_rows import (
    WEBHOOKS_MAX,
    WebhookRow,
    delete_silence,
    delete_webhook,
    get_webhook,
    insert_silence,
    list_silences,
    list_webhooks,
    put_webhook,
)
from controller.webhooks.core.message import SECRET_BYTES, Format, key_of, secret_from
from controller.webhooks.core.target import Kept
from controller.webhooks.metrics import WebhookCollector
from controller.webhooks.notifier import Notifier, subject_of
from controller.webhooks.posting import URL_CHARS_MAX, HttpPost, Post, Posted, check_url
