"""F179: the log as it is written, on a terminal elsewhere."""

import subprocess
import time



def test_lines_of_the_log_come_as_they_are_written(server):
    server = server("log.console.level = debug\n")
    command = [server.warren, "ctl", "--data-dir", str(server.data), "log_tail_stream", "--duration", "4"]
    begin = time.monotonic()
    following = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert following.stdout.readline() == "Streaming logs from node warren@localhost for 4 seconds ...\n"
    while following.poll() is None and time.monotonic() - begin < 3:
        server.connect().close()
        time.sleep(0.2)
    out, err = following.communicate(timeout=20)
    assert (following.returncode, err) == (0, "") and 3.5 < time.monotonic() - begin < 15
    assert "[info]" in out or "[debug]" in out, out
    code, _, error = server.ctl("log_tail_stream", "--duration", "x")
    assert code == 64 and "Invalid options for this command:\n--duration : x" in error
