"""Names that exist in place of names that were drawn.

A drawn name is almost never that of anything, and a request about nothing is refused before the code that is
to be tried. What exists is learnt from the lists that the document itself describes:
`/clusters/{cluster}/topics` tells what `{topic}` may be. Only parts that the document allows are replaced, so
that what was meant to be wrong stays wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

from tests.hostile.drawing import Case, allows

Get = Callable[[str], Awaitable[Any]]

AIMED_IN_PATHS = 0.85
AIMED_ELSEWHERE = 0.5
UNCONDITIONAL = 0.7
#: How many parents' lists are read.
PARENTS_MAX = 4
#: Lists whose items have no address of their own, and the names in them that requests take.
_UNADDRESSED = {
    "/clusters/{cluster}/acls": ("principal", "resource_name", "host"),
    "/clusters/{cluster}/quotas": ("user", "client_id", "ip"),
}
#: The keys of a `quotas`, which the document leaves open.
_QUOTAS = ("consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate", "request_percentage")
_LAST = re.compile(r"^(.+)/\{(\w+)\}$")
_COUNTS = {
    "partitions": (1, 8),
    "replication_factor": (1, 4),
    "max_concurrent_moves": (1, 5),
    "limit": (1, 20),
}
_TIMES = frozenset({"since", "until", "as_of", "not_before"})
_IDS = {"broker_id", "broker", "brokers", "replicas", "broker_ids", "assignments", "replaces"}


class Known:
    """What exists. by_list: by the template that takes it; by_name: by the parameter's name, of all lists."""

    def __init__(self) -> None:
        self.by_list: dict[str, list[Any]] = {}
        self.by_name: dict[str, list[Any]] = {}
        self.tokens: dict[str, list[str]] = {}

    async def learn(self, document: Mapping[str, Any], get: Get) -> None:
        """Reads the lists, parents first."""
        paths = document["paths"]
        lists = sorted(
            (found[1], found[2], path)
            for path, methods in paths.items()
            if (found := _LAST.match(path)) and "get" in methods and "get" in paths.get(found[1], {})
        )
        for parent, name, path in sorted(lists, key=lambda one: one[0].count("/")):
            for address in self._addresses(parent):
                body = await get(f"{address}?limit=20")
                if isinstance(body, dict):
                    self.note(path, name, body.get("items"))
                    if body.get("next_page_token"):
                        self.tokens.setdefault(parent, []).append(body["next_page_token"])
        for path, names in _UNADDRESSED.items():
            for address in self._addresses(path):
                body = await get(f"{address}?limit=20")
                for name in names:
                    self.note(path, name, body.get("items") if isinstance(body, dict) else ())

    def note(self, path: str, name: str, items: Any) -> None:
        candidates = (name, name.removesuffix("_id"), "id", "name")
        for item in items or ():
            value = next((item[key] for key in candidates if isinstance(item.get(key), (str, int))), None)
            if value is None:
                continue
            for kept in (self.by_list.setdefault(path, []), self.by_name.setdefault(name, [])):
                if value not in kept:
                    kept.append(value)

    def note_operation(self, location: str) -> None:
        """From a Location: work that a case has begun."""
        _, _, operation_id = location.partition("/operations/")
        if operation_id and "/" not in operation_id:
            self.note("/operations/{operation_id}", "operation_id", [{"id": operation_id}])

    def _addresses(self, template: str) -> list[str]:
        addresses = [template]
        for name in re.findall(r"\{(\w+)\}", template):
            values = self.by_name.get(name, [])[:PARENTS_MAX]
            addresses = [one.replace(f"{{{name}}}", str(value)) for one in addresses for value in values]
        return addresses[: PARENTS_MAX * PARENTS_MAX]

    def for_path(self, template: str, name: str) -> list[Any]:
        end = template.index(f"{{{name}}}") + len(name) + 2
        # `name` is what very different things are called by.
        return self.by_list.get(template[:end]) or ([] if name == "name" else self.by_name.get(name, []))


class Aim:
    """Replaces names in cases; with one generator, so that equal seeds aim equally."""

    def __init__(self, known: Known, random: Random) -> None:
        self.known = known
        self._random = random
        self._fresh = 0

    def at_path(self, case: Case) -> None:
        if not allows(case, "path"):
            return
        for name in list(case.path_parameters or ()):
            values = self.known.for_path(case.operation.path, name)
            if name == "cluster" and self._random.random() < 0.9:
                values = values[-1:] if values and values[-1] == "prod" else values
            if values and self._random.random() < AIMED_IN_PATHS:
                case.path_parameters[name] = self._pick(values)
        self._agree(case)

    def _agree(self, case: Case) -> None:
        """Brokers say who they are in the path and in the body, which no schema can tell to be the same."""
        is_internal = case.operation.path.startswith("/internal/")
        if is_internal and isinstance(case.body, dict) and allows(case, "body"):
            case.body = case.body | {"broker_id": case.path_parameters["broker_id"]}

    def everywhere(self, case: Case) -> None:
        """Also at queries, conditions and bodies."""
        self.at_path(case)
        if allows(case, "query"):
            for name, value in list((case.query or {}).items()):
                case.query[name] = self._value(name, value, case.operation.path)
        if allows(case, "header") and case.headers:
            for name in [name for name in case.headers if name.lower() == "if-match"]:
                if self._random.random() < UNCONDITIONAL:
                    del case.headers[name]
        if allows(case, "body") and isinstance(case.body, (dict, list)):
            case.body = self._within("", json.loads(json.dumps(case.body)))
            self._agree(case)

    def _within(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            if name == "quotas" and len(value) <= len(_QUOTAS) and self._random.random() < AIMED_ELSEWHERE:
                value = dict(zip(self._random.sample(_QUOTAS, len(value)), value.values(), strict=True))
            return {key: self._within(key, inner) for key, inner in value.items()}
        if isinstance(value, list) and name not in _IDS:
            return [self._within(name, inner) for inner in value]
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return [self._within(name, inner) for inner in value]
        return self._value(name, value, "")

    def _value(self, name: str, value: Any, path: str) -> Any:
        if self._random.random() >= AIMED_ELSEWHERE or value is None:
            return value
        if name == "name" and not path and isinstance(value, str):
            self._fresh += 1
            return f"new-{self._fresh}"
        if name in _COUNTS and isinstance(value, int):
            return self._random.randint(*_COUNTS[name])
        if name in _TIMES and isinstance(value, str):
            return f"2023-11-14T22:13:{self._random.randint(0, 59):02d}Z"
        if name == "page_token":
            return self._pick(self.known.tokens.get(path) or [value])
        if name == "lose":
            return [f"broker:{self._random.randint(1, 6)}"]
        if name in _IDS:
            return self._brokers(value)
        known = self.known.by_name.get(name, [])
        same = [one for one in known if type(one) is type(value)]
        return self._pick(same) if same else value

    def _brokers(self, value: Any) -> Any:
        """Of the same shape: one broker, several distinct ones, or several for each partition."""
        brokers = [one for one in self.known.by_name.get("broker_id", []) if isinstance(one, int)]
        if not brokers:
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return self._pick(brokers)
        if isinstance(value, list) and value and isinstance(value[0], list):
            return [self._random.sample(brokers, min(2, len(brokers))) for _ in value[:4]]
        if isinstance(value, list):
            return self._random.sample(brokers, min(max(1, len(value)), 3, len(brokers)))
        return value

    def _pick(self, values: list[Any]) -> Any:
        return values[self._random.randrange(len(values))]
