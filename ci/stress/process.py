"""Runs a program, kills it at some moment, and keeps what it says."""

import os
import subprocess
import threading
import time
from pathlib import Path


# Over how many seconds it is seen whether a program still works, and how much processor time shows that.
LOOK = 5
WORKS = 0.05


class Ended:
    """How a program ended."""

    def __init__(self, code, killed, slow, out, err):
        self.code = code
        self.killed = killed
        self.slow = slow
        self.out = out
        self.err = err


def run(command, log, kill_after=None, after_line=None, timeout=900, environment=None):
    """Runs a command and returns how it ended; both of its outputs go to the file `log`, too.

    It gets a SIGKILL `kill_after` seconds after it began, or after it printed a line that contains `after_line`, and
    in any case after `timeout` seconds. That counts as slow if it still used the processor, otherwise as a failure.
    """
    lines, errors = [], []
    # Its output must be there when it is killed, so it is written line by line.
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
    """Waits for the end of a process or kills it. Returns whether it was killed, and whether for being slow."""
    began = time.monotonic()
    kill_at = None if kill_after is None or mark else began + kill_after
    while process.poll() is None:
        now = time.monotonic()
        if mark and kill_at is None and kill_after is not None and mark.is_set():
            kill_at = now + kill_after
        if kill_at is not None and now >= kill_at:
            process.kill()
            process.wait()
            # It may have ended by itself at the last moment.
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
    """How much processor time a process has used, and those it started and waited for."""
    try:
        # Behind the name in parentheses the fields begin with the third.
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0
