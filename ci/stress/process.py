"""Runs a program, kills it at some moment, and keeps what it says."""

import subprocess
import threading
import time


class Ended:
    """How a program ended."""

    def __init__(self, code, killed, out, err):
        self.code = code
        self.killed = killed
        self.out = out
        self.err = err


def run(command, log, kill_after=None, after_line=None, timeout=900, environment=None):
    """Runs a command and returns how it ended; both of its outputs go to the file `log`, too.

    It gets a SIGKILL `kill_after` seconds after it began, or after it printed a line that contains `after_line`, and
    in any case after `timeout` seconds, which is not told as a kill but as a failure.
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
        killed = _wait(process, kill_after, marked if after_line else None, timeout)
    finally:
        process.kill()
        for reader in readers:
            reader.join()
        process.wait()
        out, err = "".join(lines), "".join(errors)
        log.write_text(f"{' '.join(command)}\n\n== stdout\n{out}\n== stderr\n{err}\n== ended with {process.returncode}\n")
    return Ended(process.returncode, killed, out, err)


def _wait(process, kill_after, mark, timeout):
    """Waits for the end of a process or kills it. Returns whether it was killed."""
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
            return process.returncode == -9
        if now - began > timeout:
            process.kill()
            process.wait()
            return False
        time.sleep(0.005)
    return False
