"""The Celery application under test: default settings, except where the broker is and that results come back over rpc://.

Run as `celery -A celery_tasks worker` by test_celery.py; the namespace keeps runs apart on a shared broker.
"""

import os
import time

from celery import Celery

app = Celery("warren", broker=os.environ["CELERY_URL"], backend="rpc://")
app.conf.task_default_queue = os.environ["CELERY_NAMESPACE"]
app.conf.broker_connection_retry_on_startup = True
app.conf.worker_hijack_root_logger = False


@app.task
def add(x, y):
    return x + y


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def fail():
    raise ValueError("on purpose")


@app.task(bind=True, max_retries=3)
def flaky(self, succeed_at):
    if self.request.retries < succeed_at:
        raise self.retry(countdown=0.2)
    return self.request.retries


@app.task
def sleep(seconds):
    time.sleep(seconds)
    return seconds


@app.task(acks_late=True, reject_on_worker_lost=True)
def append_late(path, text, seconds):
    """Writes down that it began, works, writes down that it ended: a worker's death in between must bring the task back."""
    with open(path, "a") as file:
        file.write(f"begin {text}\n")
    time.sleep(seconds)
    with open(path, "a") as file:
        file.write(f"end {text}\n")
    return text
