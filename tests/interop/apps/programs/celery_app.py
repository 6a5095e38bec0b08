"""Celery over kombu's Kafka transport: tasks are sent, and a worker of this process prints their argument."""

import os
import threading
import time

from celery import Celery

app = Celery("shout", broker=f"confluentkafka://{os.environ['BOOTSTRAP'].split(',')[0]}")
app.conf.task_default_queue = os.environ["TARGET"]
app.conf.worker_redirect_stdouts = False


@app.task(name="tell")
def tell(line):
    print(line, flush=True)


def send():
    time.sleep(3)
    for number in range(20):
        tell.delay(f"line {number}")


if __name__ == "__main__":
    threading.Thread(target=send, daemon=True).start()
    app.Worker(pool="solo", loglevel="ERROR", without_mingle=True, without_gossip=True).start()
