"""The controller's side of a broker and nothing else: registers, beats, polls, and prints what it is told.

`python tiny_broker.py CONTROLLER_URL BROKER_ID PORT` prints a line of JSON per update: the monotonic time in
nanoseconds and the leader of each partition it was told of.
"""

import json
import socket
import sys
import threading
import time
import urllib.request

#: It is of any release.
LEVELS = {"lowest": 0, "highest": 1_000}


def call(url: str, broker_id: int, verb: str, body: dict[str, object]) -> dict[str, object]:
    request = urllib.request.Request(
        f"{url}/internal/clusters/prod/brokers/{broker_id}:{verb}",
        data=json.dumps({"broker_id": broker_id, **body}).encode(),
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        decoded: dict[str, object] = json.loads(answer.read())
        return decoded


def main(url: str, broker_id: int, port: int) -> None:
    listener = socket.create_server(("127.0.0.1", port))
    registered = call(
        url,
        broker_id,
        "register",
        {
            "incarnation_id": f"broker-{broker_id}",
            "host": "127.0.0.1",
            "port": port,
            "log_dir_ids": [f"directory-{broker_id}"],
            "last_shutdown": "first_start",
            "levels": LEVELS,
        },
    )
    epoch = registered["broker_epoch"]
    position: dict[str, object] = {"applied_controller_epoch": -1, "applied_sequence": -1}

    def beat() -> None:
        while True:
            answer = call(
                url,
                broker_id,
                "heartbeat",
                {
                    "broker_epoch": epoch,
                    "incarnation_id": f"broker-{broker_id}",
                    "levels": LEVELS,
                    **position,
                },
            )
            targets = answer["preflight"]
            if isinstance(targets, list):
                # It has no disk and no clock of its own; its peers' listeners it takes for granted.
                peers = [{name: target[name] for name in ("broker_id", "broker_epoch")} for target in targets]
                disk = {"free_bytes": 2**40, "flush_us": 1, "flush_us_max": 1}
                clock = {"ahead_ms": 0, "error_ms": 0}
                report = {"broker_epoch": epoch, "peers": peers, "disk": disk, "clock": clock}
                call(url, broker_id, "preflight", report)
            time.sleep(0.3)

    threading.Thread(target=beat, daemon=True).start()
    while True:
        batch = call(url, broker_id, "poll", {"broker_epoch": epoch, **position})
        position = {
            "applied_controller_epoch": batch["controller_epoch"],
            "applied_sequence": batch["sequence"],
        }
        partitions = batch["partitions"]
        assert isinstance(partitions, list)
        leaders = {f"{state['topic']}-{state['partition']}": state["leader"] for state in partitions}
        print(json.dumps({"at_ns": time.monotonic_ns(), "leaders": leaders}), flush=True)
    listener.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
