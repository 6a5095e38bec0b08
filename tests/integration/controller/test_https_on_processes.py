"""A controller that serves HTTPS to holders of certificates, a broker and the command line, as processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from localcluster.ports import PortReservation
from localcluster.zookeeper import ZooKeeper
from springtide.tls import client_context
from tests.kit.controller.controller_process import START_SECONDS_MAX, ControllerProcess, broker_process
from tests.kit.springtide.certificates import PrivateCa

COMMAND_SECONDS_MAX = 60


def test_a_cluster_is_run_over_https_by_those_who_hold_certificates(
    zookeeper: ZooKeeper, root: str, tmp_path: Path
) -> None:
    ca = PrivateCa(tmp_path)
    server, operator, storage = ca.issue("server"), ca.issue("operator"), ca.issue("storage")
    flags = ("--tls-cert", server.cert, "--tls-key", server.key, "--client-ca", ca.file)
    tls = client_context(ca=ca.file, cert=operator.cert, key=operator.key)
    trusting = ("--controller-ca", ca.file)
    certified = ("--controller-client-cert", storage.cert, "--controller-client-key", storage.key)

    def springtide(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "springtide", "--url", controller.url, "--ca-file", ca.file, *arguments],
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )

    with PortReservation() as ports:
        controller, standby = (
            ControllerProcess(name, ports.reserve_free(), zookeeper, root, tmp_path, *flags, tls=tls)
            for name in ("controller", "standby")
        )
        known = broker_process(1, ports.reserve_free(), controller, tmp_path, *trusting, *certified)
        uncertified = broker_process(2, ports.reserve_free(), controller, tmp_path, *trusting)
        started = (controller.process, standby.process, known, uncertified)
        try:
            controller.start()
            controller.until_active(START_SECONDS_MAX)
            standby.start()
            standby.until_watching(controller)

            shown = ("--cert-file", operator.cert, "--key-file", operator.key)
            made = springtide("clusters", "create", "prod", *shown)
            assert (made.returncode, made.stderr) == (0, "")
            refused = springtide("clusters", "list", "--timeout", "0")
            assert refused.returncode == 3
            assert "name one with --cert-file and --key-file" in refused.stderr

            known.start()
            uncertified.start()
            deadline = time.monotonic() + START_SECONDS_MAX
            brokers: list[dict[str, object]] = []
            while not brokers or "--controller-client-cert" not in uncertified.log_path.read_text("utf-8"):
                assert time.monotonic() < deadline, uncertified.last_words() + known.last_words()
                time.sleep(0.05)
                listed = springtide("brokers", "list", "--cluster", "prod", *shown, "--output", "json")
                brokers = json.loads(listed.stdout)["items"]
            assert [broker["broker_id"] for broker in brokers] == [1]

            # The standby sees the death of the active one through its TLS port, as without TLS.
            controller.process.kill()
            standby.until_active(START_SECONDS_MAX)
        finally:
            for one in (controller, standby):
                one.http.close()
            for process in started:
                process.kill()
