"""A history of profiles from the start, and the copies that are kept when something is slow or large."""

import concurrent.futures
import json
import re
import shutil
import subprocess

import pytest

import client

# Where CI puts it, if it is not in the path.
GO = shutil.which("go") or shutil.which("/usr/local/go/bin/go")


def captures(server):
    return json.loads(server.do("profile", "captures", "--formatter", "json"))


def test_no_history_is_kept_unless_configured(server):
    server = server("")
    assert "No history" in server.do("profile", "continuous")
    code, _, error = server.ctl("profile", "history")
    assert code != 0 and "profile continuous on" in error


def test_a_profile_is_kept_when_memory_is_nearly_used_up(server):
    server = server("warren.profile.continuous = true\nvm_memory_high_watermark.absolute = 1MB")
    assert "A history of profiles is kept" in server.do("profile", "continuous")
    client.eventually(lambda: captures(server), "a capture", 30)
    (kept,) = captures(server)
    assert kept["number"] == 1 and kept["reason"].startswith("memory: ")


def test_a_profile_is_kept_when_confirms_are_slow_and_can_be_drawn(server, tmp_path):
    server = server("warren.profile.continuous = true\nwarren.profile.slow_ms = 1")
    channel = server.connect().channel()
    queue = channel.queue("slow", durable=True)

    def kept():
        # Each is a megabyte that waits for those before it to be on disk: none is confirmed within a millisecond.
        channel.put(queue, *[b"x" * 1_000_000] * 60, delivery_mode=2)
        channel.call("queue.purge", queue=queue)
        return captures(server)

    client.eventually(kept, "a capture", 60)
    kept = captures(server)[0]
    assert "one batch in a hundred took" in kept["reason"] and kept["samples"] > 0
    picture = tmp_path / "then.svg"
    server.do("profile", "captures", str(kept["number"]), "-o", str(picture))
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_where_threads_wait_is_seen_with_stacks_and_reasons(server, tmp_path):
    server = server("")
    channel = server.connect().channel()
    queue = channel.queue("q", durable=True)
    channel.put(queue, *[b"x"] * 10, delivery_mode=2)
    table = server.do("profile", "waits", "--seconds", "1")
    assert "of waiting" in table and "(sleeps in epoll_wait)" in table and "(sleeps in futex)" in table
    table = server.do("profile", "waits", "--seconds", "1", "--by", "thread")
    assert re.search(r"share  thread\n +\d.*thread ", table), table
    folded = tmp_path / "waits.folded"
    server.do("profile", "waits", "--seconds", "1", "--by", "thread", "-o", str(folded))
    lines = folded.read_text(encoding="utf-8").splitlines()
    writer = [line for line in lines if line.startswith("thread log-log;")]
    assert any("commitlog::log::writer" in line and "(sleeps in futex)" in line for line in writer), lines
    # Interrupted threads went on: the broker still confirms.
    channel.put(queue, b"x", delivery_mode=2)
    code, _, error = server.ctl("profile", "waits", "--hz", "100")
    assert code != 0 and "1 to 99" in error


def test_page_faults_are_found_or_the_refusal_says_what_to_do(server):
    server = server("")
    channel = server.connect().channel()
    queue = channel.queue("q", durable=True)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.submit(server.ctl, "profile", "faults", "--seconds", "2", "--every", "1")
        # New memory for each of them.
        for _ in range(20):
            channel.put(queue, *[b"x" * 500_000] * 10)
            channel.call("queue.purge", queue=queue)
        code, table, error = asked.result()
    if code == 0:
        assert re.search(r"\d+ page faults in 2\.", table) and "::" in table, table
    else:
        assert "kernel.perf_event_paranoid" in error and "profile threads" in error
    code, _, error = server.ctl("profile", "faults", "--every", "0")
    assert code != 0 and "1 to 10000" in error


@pytest.mark.skipif(GO is None, reason="needs Go")
@pytest.mark.timeout(300)  # Go builds the tool when it is first used
def test_go_tool_pprof_opens_profiles_with_their_labels(server, tmp_path):
    server = server("")
    server.connect()
    profile = tmp_path / "waits.pb.gz"
    server.do("profile", "waits", "--seconds", "1", "-o", str(profile))

    def pprof(*words):
        command = [GO, "tool", "pprof", *words, str(profile)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stderr
        return done.stdout

    top = pprof("-top", "-nodecount=10")
    assert "Type: waiting" in top and "(sleeps in epoll_wait)" in top
    assert "thread: Total" in pprof("-tags") and "log-log" in pprof("-tags")
