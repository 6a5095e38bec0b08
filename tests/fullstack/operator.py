"""An operator at the REST API, over the simulated network: forms the cluster, makes and deletes topics."""

from __future__ import annotations

from typing import Any

import httpx

from tests.checker.history import AdminAction, AdminCall, Function, Operation, Outcome
from tests.fullstack.clients import ClientHost
from tests.fullstack.http import SimTransport

TIMEOUT_S = 5.0
RETRY_MS = (50, 400)


class Refused(Exception):
    """The API said no; `code` says why."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code


class Operator:
    """Asks one controller after another until one answers as the active one."""

    def __init__(self, host: ClientHost, cluster: str, urls: list[str], *, name: str = "operator") -> None:
        self.name = name
        self._host = host
        self._cluster = cluster
        self._urls = urls
        self._turn = 0
        self._random = host.world.random("operator", name)
        self._client = httpx.AsyncClient(
            transport=SimTransport(host.life, host.net), timeout=TIMEOUT_S, trust_env=False, verify=False
        )
        self.requests = 0

    async def _once(
        self, method: str, path: str, body: Any, headers: dict[str, str]
    ) -> httpx.Response | None:
        """None: nobody knows."""
        url = self._urls[self._turn % len(self._urls)]
        with self._host.life.clock.timeout_s(TIMEOUT_S):
            try:
                return await self._client.request(method, url + path, json=body, headers=headers)
            except httpx.HTTPError:
                pass
        self._turn += 1
        return None

    async def ask(self, method: str, path: str, body: Any = None, *, tries: int = 60) -> Any:
        """The answer's body, None where there is none. One idempotency key for all tries, so that a write is
        done once. Raises Refused."""
        self.requests += 1
        headers = {}
        if method != "GET":
            headers["idempotency-key"] = f"{self.name}-{self.requests}"
        last = ""
        for _ in range(tries):
            response = await self._once(method, path, body, headers)
            if response is not None:
                if response.is_success:
                    return response.json() if response.content else None
                refused = _problem(response)
                if response.status_code not in (307, 308, 503, 409) or refused.code.endswith("_exists"):
                    raise refused
                last = f": {refused}"
                self._turn += response.status_code != 409
            await self._host.life.clock.sleep_ms(self._random.uniform(*RETRY_MS))
        raise Refused(0, "no_answer", f"{method} {path} had no answer in {tries} tries{last}")

    # The cluster

    async def form(self, brokers: dict[int, str], configs: dict[str, str]) -> None:
        await self.ask("POST", "/clusters", {"name": self._cluster, "configs": configs})
        specs = [{"broker_id": broker_id, "endpoint": endpoint} for broker_id, endpoint in brokers.items()]
        await self.ask("POST", f"/clusters/{self._cluster}/brokers", {"brokers": specs})

    async def create_topic(
        self, topic: str, *, partitions: int, replication_factor: int, configs: dict[str, str]
    ) -> bool:
        body = {
            "name": topic,
            "cluster": self._cluster,
            "partitions": partitions,
            "replication_factor": replication_factor,
            "configs": configs,
        }
        call = AdminCall(action=AdminAction.CREATE, topic=topic, configs=configs)
        return await self._admin(call, "POST", "/topics", body)

    async def delete_topic(self, topic: str) -> bool:
        call = AdminCall(action=AdminAction.DELETE, topic=topic)
        return await self._admin(call, "DELETE", f"/clusters/{self._cluster}/topics/{topic}", None)

    async def _admin(self, call: AdminCall, method: str, path: str, body: Any) -> bool:
        began_ns = self._host.world.now_ns
        outcome, error = Outcome.OK, ""
        try:
            await self.ask(method, path, body)
        except Refused as refused:
            error = str(refused)
            outcome = Outcome.INFO
        self._host.record(
            Operation(
                process=self.name,
                f=Function.ADMIN,
                type=outcome,
                t_invoke_ns=began_ns,
                t_return_ns=self._host.world.now_ns,
                admin=call,
                error=error,
            )
        )
        return outcome is Outcome.OK

    async def partitions(self, topic: str) -> list[dict[str, Any]]:
        path = f"/clusters/{self._cluster}/topics/{topic}/partitions?limit=1000"
        answer = await self.ask("GET", path)
        items: list[dict[str, Any]] = answer["items"]
        return items

    async def verification(self) -> dict[str, Any]:
        answer: dict[str, Any] = await self.ask("GET", f"/audit/verification?cluster={self._cluster}")
        return answer

    async def audit(self) -> list[dict[str, Any]]:
        """Newest first."""
        rows: list[dict[str, Any]] = []
        token = ""
        while True:
            answer = await self.ask("GET", f"/audit?limit=1000{token}")
            rows += answer["items"]
            if not answer["next_page_token"]:
                return rows
            token = f"&page_token={answer['next_page_token']}"


def _problem(response: httpx.Response) -> Refused:
    try:
        body = response.json()
        return Refused(response.status_code, str(body.get("code", "")), str(body.get("detail", "")))
    except ValueError:
        return Refused(response.status_code, "", response.text[:200])
