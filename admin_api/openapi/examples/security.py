"""Answers about ACLs, users and quotas of `prod`: the service `billing` reads payments, and nothing else."""

from __future__ import annotations

from typing import Final

from admin_api.openapi.examples.story import CHANGE, Shown, items

_READS: Final = {
    "resource_type": "topic",
    "resource_name": "payments",
    "pattern_type": "prefixed",
    "principal": "User:billing",
    "host": "*",
    "operation": "read",
    "permission": "allow",
}
_GROUP: Final = _READS | {"resource_type": "group", "resource_name": "billing", "pattern_type": "literal"}
_DENIED: Final = _READS | {
    "principal": "User:*",
    "host": "10.0.0.7",
    "operation": "all",
    "permission": "deny",
}
_CREATE: Final = {
    "allowed": False,
    "authorizer": True,
    "allowed_by_acls": False,
    "reason": "no_binding",
    "words": "User:grafana may not POST /clusters/prod/topics, which needs create on topic 'orders': its "
    "role viewer does not give it, the role operator does; its ACLs do not give it",
    "binding": None,
    "remove": [],
    "add": {
        "resource_type": "topic",
        "resource_name": "orders",
        "pattern_type": "literal",
        "principal": "User:grafana",
        "host": "*",
        "operation": "create",
        "permission": "allow",
    },
    "rest": {
        "request": "POST /clusters/prod/topics",
        "needs": {"operation": "create", "resource_type": "topic", "resource_name": "orders"},
        "allowed": False,
        "role": "viewer",
        "roles": ["operator", "admin"],
        "given_by_role": False,
        "given_by_acls": False,
        "words": "User:grafana may not POST /clusters/prod/topics, which needs create on topic 'orders': its "
        "role viewer does not give it, the role operator does; its ACLs do not give it",
    },
}
_BOTH: Final = [
    {"mechanism": "SCRAM-SHA-256", "iterations": 4096},
    {"mechanism": "SCRAM-SHA-512", "iterations": 4096},
]
_USER: Final = {
    "user": "billing",
    "mechanisms": _BOTH,
    "last_change": CHANGE | {"cause": "user_altered", "reason": "the new billing service"},
}
_QUOTAS: Final = {
    "user": "billing",
    "client_id": None,
    "ip": None,
    "quotas": {"producer_byte_rate": 10_000_000.0},
    "last_change": CHANGE | {"cause": "quotas_altered", "reason": "billing floods the others"},
}

SECURITY: Final[dict[tuple[str, int], tuple[Shown, ...]]] = {
    ("listAcls", 200): (Shown("two", "A prefix of topics, and a group", items(_READS, _GROUP)),),
    ("addAcls", 200): (
        Shown(
            "added",
            "The first was there already",
            {"items": [_READS | {"is_new": False}, _GROUP | {"is_new": True}]},
        ),
    ),
    ("removeAcls", 200): (Shown("removed", "Two matched the filter", {"items": [_READS, _GROUP]}),),
    ("explainAcls", 200): (
        Shown(
            "denied",
            "A denial is stronger than what allows it",
            {
                "allowed": False,
                "authorizer": True,
                "allowed_by_acls": False,
                "reason": "deny_binding",
                "words": "User:billing from 10.0.0.7 may not read topic 'payments': a binding denies each "
                "user from 10.0.0.7 everything on each topic whose name begins with 'payments'",
                "binding": _DENIED,
                "remove": [_DENIED],
                "add": None,
                "rest": {
                    "request": None,
                    "needs": {"operation": "read", "resource_type": "topic", "resource_name": "payments"},
                    "allowed": False,
                    "role": None,
                    "roles": [],
                    "given_by_role": False,
                    "given_by_acls": False,
                    "words": "User:billing may not do this over REST, which needs read on topic 'payments': "
                    "the controller's tokens file does not name it, and no role gives it; its ACLs do not "
                    "give it",
                },
            },
        ),
        Shown("request", "A request over REST: the role does not give it, and a binding would", _CREATE),
    ),
    ("listUsers", 200): (Shown("one", "One user", items(_USER)),),
    ("getUser", 200): (Shown("both", "It may log in by both mechanisms", _USER),),
    ("putUser", 200): (Shown("replaced", "Its password is another", _USER),),
    ("putUser", 201): (Shown("new", "It is new", _USER),),
    ("deleteUser", 200): (Shown("deleted", "The user as it was", _USER),),
    ("listQuotas", 200): (Shown("one", "One user's", items(_QUOTAS)),),
    ("alterQuotas", 200): (Shown("set", "As they are now", {"items": [_QUOTAS]}),),
}
