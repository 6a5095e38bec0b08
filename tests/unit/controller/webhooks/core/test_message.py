"""Bodies and signatures. The expected signature is Standard Webhooks' own test vector."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

import pytest

from controller.core.silences import Subject
from controller.webhooks.core.message import (
    Format,
    Message,
    MessageKind,
    body_of,
    headers_of,
    key_of,
    secret_from,
)

BEGIN = Message(
    id="msg_1",
    event=MessageKind.BEGIN,
    at_ms=1_764_446_400_000,
    detail="<!channel> & more",
    subject=Subject(code="partition_leaderless", topic="orders", topic_id="T1", partition=0),
    since_ms=1_764_446_390_000,
)
LINK = "http://c1:8080/#prod"


def test_the_json_says_what_who_and_when() -> None:
    assert json.loads(body_of(BEGIN, cluster="prod", link=LINK, format=Format.JSON)) == {
        "id": "msg_1",
        "event": "begin",
        "cluster": "prod",
        "at": "2025-11-29T20:00:00Z",
        "link": LINK,
        "alarm": {
            "code": "partition_leaderless",
            "topic": "orders",
            "topic_id": "T1",
            "partition": 0,
            "broker_id": None,
            "group_id": None,
            "detail": "<!channel> & more",
            "since": "2025-11-29T19:59:50Z",
        },
    }


def test_dropped_messages_are_told_as_a_number() -> None:
    message = Message(id="m", event=MessageKind.DROPPED, at_ms=0, detail="3 were given up", dropped=3)
    body = json.loads(body_of(message, cluster="prod", link=LINK, format=Format.JSON))
    assert (body["event"], body["dropped"], body["alarm"]) == ("dropped", 3, None)


def test_slack_gets_its_shape_and_no_mention_that_a_name_holds() -> None:
    body = json.loads(body_of(BEGIN, cluster="prod", link=LINK, format=Format.SLACK))
    assert body["text"] == ("[prod] partition_leaderless begins (orders-0): &lt;!channel&gt; &amp; more")
    (block,) = body["blocks"]
    assert (block["type"], block["text"]["type"]) == ("section", "mrkdwn")
    assert block["text"]["text"].endswith(f"\n<{LINK}|Open the page>")
    assert "<!channel>" not in block["text"]["text"]


def test_the_longest_text_fits_into_a_block_of_slack() -> None:
    message = Message(
        id="m",
        event=MessageKind.CHANGE,
        at_ms=0,
        detail="&" * 2_000,
        subject=Subject(code="x" * 40, group_id="<" * 255),
    )
    body = json.loads(body_of(message, cluster="c" * 63, link=LINK, format=Format.SLACK))
    assert len(body["blocks"][0]["text"]["text"]) <= 3_000


def test_the_signature_is_that_of_standard_webhooks() -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    headers = headers_of("msg_p5jXN8AQM9LWM0D4loKWxJek", body, secret=secret, wall_ms=1_614_265_330_999)
    assert headers["webhook-id"] == "msg_p5jXN8AQM9LWM0D4loKWxJek"
    assert headers["webhook-timestamp"] == "1614265330"
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330." + body
    digest = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{digest}"


def test_a_secret_that_is_made_is_one() -> None:
    assert key_of(secret_from(bytes(range(32)))) == bytes(range(32))


@pytest.mark.parametrize(
    "secret",
    ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAA", f"whsec_{'A' * 88}", "whsec_ä" * 20],
)
def test_other_texts_are_no_secrets(secret: str) -> None:
    with pytest.raises(ValueError, match="whsec_"):
        key_of(secret)
