"""Kafka Connect: a distributed worker with exactly-once sources, whose connector writes the lines of a file.

A transaction takes what comes within two seconds, not the lines of one poll, so that it is open for a while.
Its arguments: the command that starts Java.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

GROUP, FOLDER = os.environ["GROUP"], os.environ["FOLDER"]
TEXT = "org.apache.kafka.connect.storage.StringConverter"
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{free.getsockname()[1]}"
worker = {
    "bootstrap.servers": os.environ["BOOTSTRAP"],
    "group.id": GROUP,
    "listeners": url,
    "key.converter": TEXT,
    "value.converter": TEXT,
    "exactly.once.source.support": "enabled",
    **{f"{name}.storage.topic": f"{GROUP}-{name}" for name in ("config", "offset", "status")},
}
connector = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "tasks.max": "1",
    "file": f"{FOLDER}/lines",
    "topic": os.environ["TARGET"],
    "exactly.once.support": "required",
    "transaction.boundary": "interval",
    "transaction.boundary.interval.ms": "2000",
}
path = Path(FOLDER, "worker.properties")
path.write_text("".join(f"{key}={value}\n" for key, value in worker.items()), encoding="utf-8")
process = subprocess.Popen([*sys.argv[1:], "org.apache.kafka.connect.cli.ConnectDistributed", str(path)])
body = json.dumps(connector).encode()
while process.poll() is None:
    request = urllib.request.Request(
        f"{url}/connectors/{GROUP}/config", body, {"Content-Type": "application/json"}, method="PUT"
    )
    try:
        urllib.request.urlopen(request, timeout=60).close()
        break
    except OSError:
        time.sleep(0.5)  # it is starting, or its group is
sys.exit(process.wait())
