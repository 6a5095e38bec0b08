"""How a client gets in where the request says so, in the words of librdkafka and of the Java client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Asked = dict[str, Any]
JAAS = "org.apache.kafka.common.security"
OAUTHBEARER = "OAUTHBEARER"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""A property of the JVM."""


def librdkafka_settings(asked: Asked) -> dict[str, str]:
    """Return all but the way to get a token."""
    login = asked["login"]
    if not login:
        return {}
    settings = {"security.protocol": login["protocol"], "ssl.ca.location": login["ca"]}
    if login["identity"]:
        settings |= {"ssl.certificate.location": login["identity"], "ssl.key.location": login["identity"]}
    if login["mechanism"]:
        settings["sasl.mechanism"] = login["mechanism"]
    if login["password"]:
        settings |= {"sasl.username": login["user"], "sasl.password": login["password"]}
    return settings


def java_settings(asked: Asked) -> dict[str, str]:
    login = asked["login"]
    if not login:
        return {}
    settings = {
        "security.protocol": login["protocol"],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": login["ca"],
    }
    if login["identity"]:
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": login["identity"]}
    if login["mechanism"]:
        settings["sasl.mechanism"] = login["mechanism"]
    match login["mechanism"]:
        case "":
            pass
        case "OAUTHBEARER":
            settings |= {
                "sasl.jaas.config": f"{JAAS}.oauthbearer.OAuthBearerLoginModule required;",
                "sasl.login.callback.handler.class": f"{JAAS}.oauthbearer.OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": token_url(asked),
            }
        case mechanism:
            module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
            who = f'username="{login["user"]}" password="{login["password"]}"'
            settings["sasl.jaas.config"] = f"{JAAS}.{module} required {who};"
    return settings


def token_url(asked: Asked) -> str:
    return Path(asked["login"]["token_file"]).as_uri()
