"""A controller with tokens, and brokers with and without one, as processes."""

from __future__ import annotations

import time
from pathlib import Path

from localcluster.ports import PortReservation
from localcluster.zookeeper import ZooKeeper
from tests.kit.controller.controller_process import START_SECONDS_MAX, ControllerProcess, broker_process
from tests.kit.secret_file import write_secret

OPERATOR = "operator-0123456789-0123456789"
BROKER = "broker-0123456789-0123456789"


def test_only_a_broker_with_a_token_is_taken_in(zookeeper: ZooKeeper, root: str, tmp_path: Path) -> None:
    tokens, token = tmp_path / "tokens", tmp_path / "token"
    write_secret(tokens, f"ci operator {OPERATOR}\nbrokers broker {BROKER}\n")
    write_secret(token, f"{BROKER}\n")
    with PortReservation() as ports:
        controller = ControllerProcess(
            "controller", ports.reserve_free(), zookeeper, root, tmp_path, "--tokens-file", str(tokens)
        )
        known = broker_process(
            1, ports.reserve_free(), controller, tmp_path, "--controller-token-file", str(token)
        )
        unknown = broker_process(2, ports.reserve_free(), controller, tmp_path)
        started = (controller.process, known, unknown)
        try:
            controller.http.headers["Authorization"] = f"Bearer {OPERATOR}"
            controller.start()
            controller.until_active(START_SECONDS_MAX)
            assert controller.http.get("/clusters", headers={"Authorization": "Bearer x"}).status_code == 401
            assert controller.create_cluster("prod") == 201
            unknown.start()
            known.start()
            deadline = time.monotonic() + START_SECONDS_MAX
            brokers: list[dict[str, object]] = []
            while not brokers or "HTTP 401" not in unknown.log_path.read_text(encoding="utf-8"):
                assert time.monotonic() < deadline, unknown.last_words()
                time.sleep(0.05)
                brokers = controller.http.get("/clusters/prod/brokers").json()["items"]
            assert [broker["broker_id"] for broker in brokers] == [1]
            (request,) = controller.http.get("/audit?kind=request").json()["items"]
            assert request["actor"] == "ci"
            assert BROKER not in known.log_path.read_text(encoding="utf-8") + controller.log()
        finally:
            controller.http.close()
            for process in started:
                process.kill()
