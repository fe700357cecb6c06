"""Runs a program, kills it at a given time, and records its output."""

import os
import subprocess
import threading
import time
from pathlib import Path


# A program counts as still working if it uses more than the share WORKS of a processor's time,
# measured over a period of LOOK seconds.
LOOK = 5
WORKS = 0.05


class Ended:
    """The outcome of a program."""

    def __init__(self, code, killed, slow, out, err):
        self.code = code
        self.killed = killed
        self.slow = slow
        self.out = out
        self.err = err


def run(command, log, kill_after=None, after_line=None, timeout=900, environment=None):
    """Runs a command and returns its outcome; standard output and error are also written to the file `log`.

    The command is killed (SIGKILL) `kill_after` seconds after it started, or after it printed a line that contains
    `after_line`, and in any case after `timeout` seconds. A run that times out counts as slow if it was still using
    the processor, otherwise as a failure.
    """
    lines, errors = [], []
    # Output is line-buffered, so that no line is lost when the command is killed.
    command = ["stdbuf", "-oL", *map(str, command)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=environment
    )
    marked = threading.Event()

    def read_lines():
        for line in process.stdout:
            lines.append(line)
            if after_line and after_line in line:
                marked.set()

    readers = [threading.Thread(target=read_lines), threading.Thread(target=lambda: errors.extend(process.stderr))]
    for reader in readers:
        reader.start()
    try:
        killed, slow = _wait(process, kill_after, marked if after_line else None, timeout)
    finally:
        process.kill()
        for reader in readers:
            reader.join()
        process.wait()
        out, err = "".join(lines), "".join(errors)
        log.write_text(f"{' '.join(command)}\n\n== stdout\n{out}\n== stderr\n{err}\n== ended with {process.returncode}\n")
    return Ended(process.returncode, killed, slow, out, err)


def _wait(process, kill_after, mark, timeout):
    """Waits for a process to end, or kills it. Returns whether it was killed as planned, and whether it was slow."""
    began = time.monotonic()
    kill_at = None if kill_after is None or mark else began + kill_after
    while process.poll() is None:
        now = time.monotonic()
        if mark and kill_at is None and kill_after is not None and mark.is_set():
            kill_at = now + kill_after
        if kill_at is not None and now >= kill_at:
            process.kill()
            process.wait()
            # The process may have ended before the kill.
            return process.returncode == -9, False
        if now - began > timeout:
            before = _processor_seconds(process)
            time.sleep(LOOK)
            slow = _processor_seconds(process) - before >= WORKS * LOOK
            process.kill()
            process.wait()
            return False, slow
        time.sleep(0.005)
    return False, False


def _processor_seconds(process):
    """Returns the processor time used by a process and by the children that it waited for, in seconds."""
    try:
        # The first field after the name in parentheses is the third field of the file.
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0
