#!/usr/bin/env python3
"""Measures `tailwater serve` under loads that are permitted but unfavourable, beside small requests.

usage: ci/stress/server.py [--seconds 300] [--load NAME]... [--built]

Builds the server and the example `neighbours` of crate tailwater-server, which produces the loads and measures the
small requests. Each load runs on a server of its own, which is started on a directory below --work that `neighbours`
has filled. Prints a row for each load: the peak of the server's resident memory, its resident memory after the load's
clients have left, the p99 of the latency of each kind of small request, the longest login, and the number of calls that
failed, those of catching-up consumers included.

Fails if a call failed, if the peak exceeds 1.2 times the sum of the configured limits on memory plus 64 MiB, if the p99
of a small request exceeds 10 times its value without a load, or if a right password waits for more than a second beside
wrong ones. The bound on the p99 does not apply to loads that use up the processors or the device.

The load on a slow device needs root and the block I/O controller of cgroups (version 1), and is skipped otherwise.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = ("127.0.0.1", 8290)
# Limits on the memory of a server, in MiB, and the memory of the server at rest with its connections and threads.
IN_FLIGHT, TAIL, READ_AHEAD, BASE = 512, 64, 64, 64
MEMORY_MAX = 1.2 * (IN_FLIGHT + TAIL + READ_AHEAD) + BASE
SLOW_DEVICE_BYTES = 125_000_000  # per second
BLKIO = Path("/sys/fs/cgroup/blkio")
SMALL = ["send 100 B", "poll 100 B", "send 100 KB", "poll 100 KB"]


class Load(NamedTuple):
    name: str
    kind: str  # of `neighbours`
    clients: int
    descriptors: int = 0  # limit of the server; 0 is that of this process
    is_device_slow: bool = False
    is_busy: bool = False  # whether it uses up the processors or the device


LOADS = [
    Load("none", "none", 0),
    Load("400 idle connections, 300 descriptors", "idle", 400, descriptors=300),
    Load("40 consumers, 400 segments, 300 descriptors", "catch-up", 40, descriptors=300, is_busy=True),
    Load("250 consumers, slow device", "catch-up", 250, is_device_slow=True, is_busy=True),
    Load("12 slow polls of 60 MiB", "slow-polls", 12),
    Load("40 slow polls of 60 MiB", "slow-polls", 40),
    Load("12 polls of 60 MiB", "polls", 12, is_busy=True),
    Load("200 unread polls of 1 MiB", "unread-polls", 200),
    Load("8 slow sends of 60 MiB", "slow-sends", 8),
    Load("8 sends of 60 MiB", "sends", 8, is_busy=True),
    Load("6 slow sends without permission", "unauthorised-sends", 6),
    Load("200 stalled sends of 1 MiB", "stalled-sends", 200),
    Load("100 wrong passwords", "wrong-passwords", 100),
]


class SlowDevice:
    """A control group whose processes read slowly from the device of a directory."""

    def __init__(self, directory):
        number = os.stat(directory).st_dev
        entry = Path("/sys/dev/block/%d:%d" % (os.major(number), os.minor(number)))
        if os.geteuid() != 0 or not BLKIO.is_dir() or not entry.exists():
            raise OSError("it needs root, cgroups of version 1, and a directory on a block device")
        # Only the rate of a whole disk can be limited.
        is_partition = (entry / "partition").exists()
        disk = ((entry.resolve().parent if is_partition else entry) / "dev").read_text().strip()
        self.group = BLKIO / ("tailwater-%d" % os.getpid())
        self.group.mkdir()
        (self.group / "blkio.throttle.read_bps_device").write_text("%s %d" % (disk, SLOW_DEVICE_BYTES))

    def add(self, process):
        (self.group / "cgroup.procs").write_text(str(process))

    def remove(self):
        self.group.rmdir()


class Server:
    """A running server."""

    def __init__(self, setup, descriptors=0, device=None):
        settings = {
            "limits.in_flight_bytes_max": "%d MiB" % IN_FLIGHT,
            "system.memory.tail_bytes_max": "%d MiB" % TAIL,
            "system.memory.read_ahead_bytes_max": "%d MiB" % READ_AHEAD,
            "topic_defaults.segment_size": "128 MiB",
            "topic_defaults.max_topic_size": "512 MiB",
            "http.enabled": "false",
        }
        command = [setup.tailwater, "serve", "--path", setup.work / "data"]
        command += ["--address", "%s:%d" % ADDRESS, "--with-default-root-credentials"]
        for key, value in settings.items():
            command += ["--set", "%s=%s" % (key, value)]

        def prepare():
            if descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
            if device:
                device.add(os.getpid())

        null = subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdout=null, stderr=null, preexec_fn=prepare)
        for _ in range(300):
            try:
                socket.create_connection(ADDRESS).close()
                return
            except OSError:
                time.sleep(0.1)
        sys.exit("nothing listens on %s:%d" % ADDRESS)

    def memory(self, field):
        """Returns a field of the process's status, in MiB."""
        for line in Path("/proc/%d/status" % self.process.pid).read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
        sys.exit("the server has ended")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Result(NamedTuple):
    calls: dict  # the figures of each kind of call
    peak: float
    after: float

    def row(self, load):
        cells = [load.name, "%.0f" % self.peak, "%.0f" % self.after]
        cells += ["%.2f" % (self.calls[name]["p99_us"] / 1e3) for name in SMALL]
        cells += ["%.0f" % (self.calls["login"]["max_us"] / 1e3)]
        cells += [str(sum(call["failures"] for call in self.calls.values()))]
        return "| " + " | ".join(cells) + " |"

    def violations(self, load, idle):
        found = ["%s: %d calls failed" % (name, call["failures"])
                 for name, call in self.calls.items() if call["failures"]]
        if self.peak > MEMORY_MAX:
            found.append("the peak of the resident memory is above %.0f MiB" % MEMORY_MAX)
        for name in SMALL:
            bound = 10 * idle.calls[name]["p99_us"]
            if not load.is_busy and self.calls[name]["p99_us"] > bound:
                found.append("%s: the p99 is above %.1f ms" % (name, bound / 1e3))
        if load.kind == "wrong-passwords" and self.calls["login"]["max_us"] > 1e6:
            found.append("a right password waited for more than a second")
        return ["%s: %s" % (load.name, each) for each in found]


def neighbours(setup, *arguments):
    command = [setup.neighbours, "%s:%d" % ADDRESS, *(str(argument) for argument in arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def fill(setup):
    """Creates a directory with the messages and users that the loads need."""
    shutil.rmtree(setup.work, ignore_errors=True)
    setup.work.mkdir(parents=True)
    server = Server(setup)
    try:
        neighbours(setup, "setup")
    finally:
        server.stop()


def run(setup, load):
    """Runs a load on a new server."""
    device = SlowDevice(setup.work) if load.is_device_slow else None
    server = Server(setup, load.descriptors, device)
    try:
        calls = json.loads(neighbours(setup, load.kind, load.clients, setup.seconds))
        peak = server.memory("VmHWM")
        time.sleep(min(10, setup.seconds))
        return Result(calls, peak, server.memory("VmRSS"))
    finally:
        server.stop()
        if device:
            device.remove()


def build(setup):
    cargo = [os.environ.get("CARGO", "cargo"), "build", "--quiet", "--locked", "--release"]
    if not setup.built:
        for target in [["-p", "tailwater-cli"], ["-p", "tailwater-server", "--example", "neighbours"]]:
            subprocess.run([*cargo, *target], cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    setup.tailwater, setup.neighbours = target / "tailwater", target / "examples/neighbours"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=300, help="duration of each load")
    parser.add_argument("--load", action="append", default=[], help="run only loads whose names contain this")
    parser.add_argument("--built", action="store_true", help="use the existing build of the programs")
    parser.add_argument("--work", type=Path, default=ROOT / "target/server-loads")
    setup = parser.parse_args()
    build(setup)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    fill(setup)
    columns = ["load", "peak MiB", "after MiB", *("%s p99 ms" % name for name in SMALL), "login max ms", "failures"]
    print("|", " | ".join(columns), "|")
    print("|---|" + "---:|" * (len(columns) - 1), flush=True)
    idle, violated = None, []
    for load in LOADS:
        if idle and setup.load and not any(part in load.name for part in setup.load):
            continue
        try:
            result = run(setup, load)
        except OSError as error:
            print("skipped: %s: %s" % (load.name, error), flush=True)
            continue
        idle = idle or result
        print(result.row(load), flush=True)
        violated += result.violations(load, idle)
    shutil.rmtree(setup.work, ignore_errors=True)
    for found in violated:
        print("FAILED: " + found)
    return 1 if violated else 0


if __name__ == "__main__":
    sys.exit(main())
