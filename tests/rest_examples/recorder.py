"""What asks the application by the document's own examples and keeps its answers, and a loop in virtual time
that runs the same tasks in the same order each time."""

from __future__ import annotations

import asyncio
import json
import selectors
from dataclasses import dataclass, field
from typing import Any

from tests.kit.admin_api.document import parameters_of, resolved
from tests.kit.admin_api.rest import Rest

#: Answers by operation and status: examples by name.
Answers = dict[str, dict[str, dict[str, Any]]]


class _Jumping(selectors.DefaultSelector):
    """Waits for no timer: time jumps to it."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0 if timeout is not None else None)
        if not found and timeout is not None:
            self.now_s += max(0.0, timeout)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio runs what is ready in its order; trio shuffles it, and ids would be drawn in another order."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


def written(answers: Answers) -> str:
    """Return the file's text: a line an example, so that a change of one is a change of one line."""
    lines = [
        f"{json.dumps(f'{operation} {status} {name}')}: {json.dumps(shown, ensure_ascii=False)}"
        for operation, by_status in sorted(answers.items())
        for status, examples in sorted(by_status.items())
        for name, shown in examples.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


@dataclass
class Recorder:
    """One controller of a story. at: parameters of paths and queries that differ from the document's."""

    rest: Rest
    answers: Answers
    at: dict[str, Any] = field(default_factory=dict)
    actor: str = "alice"

    async def show(
        self,
        operation_id: str,
        name: str,
        summary: str,
        /,
        body: dict[str, Any] | None = None,
        *,
        example: int = 0,
        if_match: bool = False,
        **query: Any,
    ) -> Any:
        """Send a request, keep its answer as an example, and return it.

        Without a body the document's own is sent, the one at `example` where it has several.
        """
        answer = await self.ask(operation_id, body, example=example, if_match=if_match, **query)
        by_status = self.answers.setdefault(operation_id, {})
        examples = by_status.setdefault(str(answer.status_code), {})
        assert name not in examples, (operation_id, name)
        examples[name] = {"summary": summary, "value": answer.json()}
        return answer.json()

    async def ask(
        self,
        operation_id: str,
        /,
        body: dict[str, Any] | None = None,
        *,
        example: int = 0,
        if_match: bool = False,
        **query: Any,
    ) -> Any:
        document = self.rest.app.openapi()
        method, template, operation = next(
            (method, path, operation)
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
            if operation["operationId"] == operation_id
        )
        given = self.at | query
        places = {
            one["name"]: given.get(one["name"], one.get("example"))
            for one in parameters_of(document, operation)
            if one["in"] == "path"
        }
        path = template.format(**places)
        if body is None and "requestBody" in operation:
            body = _example(document, operation["requestBody"]["content"]["application/json"], example)
        headers = {"X-Actor": self.actor}
        if if_match:
            headers["If-Match"] = (await self.rest.client.get(path.partition(":")[0])).headers["etag"]
        params = {name: value for name, value in query.items() if name not in places}
        answer = await self.rest.client.request(method, path, json=body, params=params, headers=headers)
        assert answer.is_success, (operation_id, answer.text)
        return answer


def _example(document: dict[str, Any], media: dict[str, Any], number: int) -> dict[str, Any]:
    named = list(media.get("examples", {}).values())
    if named:
        value: dict[str, Any] = named[number]["value"]
    else:
        value = resolved(document, media["schema"])["examples"][number]
    return value
