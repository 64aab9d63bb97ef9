"""A real Celery worker doing real tasks with Celery's default settings: what py-amqp and kombu ask of a broker.

Covers task queues, rpc:// results, retries and countdown (kept unacked by the worker), groups and chains, chord
callbacks, remote control (fanout exchange, transient queues), revocation, late acks over a worker's death.
"""

import os
import signal
import subprocess
import sys
import time
import uuid
import warnings

import kombu
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))

pytestmark = pytest.mark.timeout(120)


class Worker:
    """One `celery worker` process group, its log in a file."""

    def __init__(self, environment, name, log_path, concurrency=2):
        self.name = f"{name}@{environment['CELERY_NAMESPACE']}"
        self.log_path = log_path
        arguments = ["-m", "celery", "-A", "celery_tasks", "worker", "--loglevel=INFO", f"--concurrency={concurrency}", "-n", self.name]
        with open(log_path, "wb") as log:
            self.process = subprocess.Popen([sys.executable, *arguments], cwd=HERE, env=environment, stdout=log,
                                            stderr=subprocess.STDOUT, start_new_session=True)

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def wait_ready(self, deadline_s=40):
        end = time.monotonic() + deadline_s
        while " ready." not in self.log():
            assert self.process.poll() is None and time.monotonic() < end, self.log()[-4000:]
            time.sleep(0.05)
        return self

    def stop(self):
        """Warm shutdown. Says whether it ended by itself: once in a while Celery's does not, with any broker."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                warnings.warn(f"a warm shutdown of Celery hangs, killed:\n{self.log()[-1500:]}")
                self.kill()
                return False
        return True

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)


@pytest.fixture(scope="module")
def environment(url):
    namespace = f"celery.{uuid.uuid4().hex[:8]}"
    # Celery writes a URL's vhost as it stands: amqp://host/%2F means "/"
    environment = dict(os.environ, CELERY_URL=url, CELERY_NAMESPACE=namespace, PYTHONUNBUFFERED="1", C_FORCE_ROOT="1")
    os.environ.update(CELERY_URL=url, CELERY_NAMESPACE=namespace)
    yield environment
    with kombu.Connection(url) as connection:
        channel = connection.channel()
        channel.queue_delete(namespace)
        channel.exchange_delete(namespace)


@pytest.fixture(scope="module")
def tasks(environment):
    import celery_tasks
    yield celery_tasks
    celery_tasks.app.close()


@pytest.fixture(scope="module")
def worker(environment, tmp_path_factory):
    worker = Worker(environment, "first", tmp_path_factory.mktemp("celery") / "worker.log").wait_ready()
    yield worker
    worker.stop()
    if os.environ.get("CELERY_SHOW_LOG"):
        print(worker.log())


def test_a_task_returns_its_result(worker, tasks):
    assert tasks.add.delay(2, 3).get(timeout=20) == 5


def test_many_tasks_at_once(worker, tasks):
    results = [tasks.add.delay(i, i) for i in range(200)]
    assert [result.get(timeout=30) for result in results] == [2 * i for i in range(200)]


def test_a_failing_task_raises_at_the_caller(worker, tasks):
    with pytest.raises(ValueError, match="on purpose"):
        tasks.fail.delay().get(timeout=20)


def test_retries(worker, tasks):
    assert tasks.flaky.delay(2).get(timeout=30) == 2
    with pytest.raises(Exception) as raised:
        tasks.flaky.delay(99).get(timeout=30)
    assert "Can't retry" in str(raised.value)


def test_a_countdown_task_runs_later(worker, tasks):
    begin = time.monotonic()
    assert tasks.add.apply_async((1, 1), countdown=1.5).get(timeout=30) == 2
    assert time.monotonic() - begin >= 1.4


def test_chain_and_group(worker, tasks):
    from celery import chain, group
    assert chain(tasks.add.s(1, 2), tasks.add.s(10), tasks.add.s(100))().get(timeout=30) == 113
    assert group(tasks.add.s(i, 1) for i in range(20))().get(timeout=30) == list(range(1, 21))


def test_expired_task_is_not_run(worker, tasks):
    from celery.exceptions import TaskRevokedError
    result = tasks.add.apply_async((1, 1), countdown=0.5, expires=0.1)
    with pytest.raises(TaskRevokedError):
        result.get(timeout=30)


def test_remote_control_reaches_the_worker(worker, tasks):
    replies = tasks.app.control.ping(destination=[worker.name], timeout=5)
    assert replies == [{worker.name: {"ok": "pong"}}]
    inspect = tasks.app.control.inspect(destination=[worker.name], timeout=5)
    assert "celery_tasks.add" in inspect.registered()[worker.name]
    [queue] = inspect.active_queues()[worker.name]
    assert queue["name"] == os.environ["CELERY_NAMESPACE"]
    assert inspect.stats()[worker.name]["pool"]["max-concurrency"] == 2


def test_a_task_is_revoked_before_and_while_it_runs(worker, tasks):
    from celery.exceptions import TaskRevokedError
    later = tasks.add.apply_async((1, 1), countdown=3)
    running = tasks.sleep.delay(60)
    inspect = tasks.app.control.inspect(destination=[worker.name], timeout=2)
    end = time.monotonic() + 20
    while running.id not in str(inspect.active()):
        assert time.monotonic() < end
    tasks.app.control.revoke(later.id, reply=True, destination=[worker.name], timeout=5)
    tasks.app.control.revoke(running.id, terminate=True, reply=True, destination=[worker.name], timeout=5)
    with pytest.raises(TaskRevokedError):
        running.get(timeout=30)
    with pytest.raises(TaskRevokedError):
        later.get(timeout=30)


def test_events_are_broadcast(worker, tasks):
    """celeryev: a topic exchange, and one expiring queue per listener."""
    wanted, seen = {"task-received", "task-started", "task-succeeded"}, set()
    tasks.app.control.enable_events(reply=True, destination=[worker.name], timeout=5)
    with tasks.app.connection_for_read() as connection:
        receiver = tasks.app.events.Receiver(connection, handlers={"*": lambda event: seen.add(event["type"])})
        with receiver.consumer_context() as (_, channel, _):
            tasks.add.delay(1, 1)
            end = time.monotonic() + 20
            while not wanted <= seen and time.monotonic() < end:
                try:
                    channel.connection.client.drain_events(timeout=0.5)
                except TimeoutError:
                    pass
    assert wanted <= seen


def test_late_acked_task_survives_its_worker(environment, tasks, worker, tmp_path):
    """The worker is killed in the middle; the broker gives the task to the next one."""
    journal = tmp_path / "journal"
    tasks.app.control.cancel_consumer(environment["CELERY_NAMESPACE"], destination=[worker.name], reply=True, timeout=5)
    doomed = Worker(environment, "doomed", tmp_path / "doomed.log", concurrency=1).wait_ready()
    result = tasks.append_late.delay(str(journal), "job", 2)
    end = time.monotonic() + 20
    while not journal.exists():
        assert time.monotonic() < end, doomed.log()[-2000:]
        time.sleep(0.02)
    doomed.kill()
    assert journal.read_text() == "begin job\n"
    tasks.app.control.add_consumer(environment["CELERY_NAMESPACE"], destination=[worker.name], reply=True, timeout=5)
    assert result.get(timeout=40) == "job"
    assert journal.read_text() == "begin job\nbegin job\nend job\n"


def test_a_stopped_worker_leaves_the_rest_to_its_successor(environment, tasks, worker, tmp_path):
    tasks.app.control.cancel_consumer(environment["CELERY_NAMESPACE"], destination=[worker.name], reply=True, timeout=5)
    leaving = Worker(environment, "leaving", tmp_path / "leaving.log", concurrency=1).wait_ready()
    journal = tmp_path / "journal"
    results = [tasks.append_late.delay(str(journal), str(i), 0.3) for i in range(10)]
    results[0].get(timeout=20)
    time.sleep(0.1)    # in the middle of the second task: a message that comes in just as Celery begins to stop makes it hang
    graceful = leaving.stop()     # finishes what runs, gives back what it had prefetched
    tasks.app.control.add_consumer(environment["CELERY_NAMESPACE"], destination=[worker.name], reply=True, timeout=5)
    assert sorted(result.get(timeout=40) for result in results) == [str(i) for i in range(10)]
    ended = [line for line in journal.read_text().splitlines() if line.startswith("end")]
    assert set(ended) == {f"end {i}" for i in range(10)}, "nothing was lost"
    if graceful:
        assert len(ended) == 10, "a warm stop does not repeat what it finished"


def test_worker_reconnects_after_a_broker_restart(environment, tasks, restart, tmp_path):
    lasting = Worker(environment, "lasting", tmp_path / "lasting.log").wait_ready()
    try:
        assert tasks.add.delay(1, 2).get(timeout=20) == 3
        restart().finished()
        end = time.monotonic() + 60
        while True:
            try:
                assert tasks.add.delay(20, 22).get(timeout=10) == 42
                break
            except Exception:
                assert time.monotonic() < end, lasting.log()[-4000:]
                tasks.app.pool.force_close_all()
                tasks.app.pool.resize(tasks.app.pool.limit, force=True, reset=True)
    finally:
        lasting.stop()
