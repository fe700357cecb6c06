#!/usr/bin/env python3
"""Runs Apache Iggy's benchmark against `tailwater serve` and Iggy's own server, in turns.

usage: ci/loads.py --bench PATH --iggy PATH [--iggy-config PATH] --tailwater PATH [--stub PATH] [--rate MB]
                   [--load TEXT] [RUNS]

`--bench` and `--iggy` are the programs `iggy-bench` and `iggy-server`, and `--iggy-config` is the
server's configuration file; `--stub` is the example `discard` of crate tailwater-server, through which
the producer also runs, to determine the client's own limit. `--load` selects the loads whose titles
contain TEXT. Each run starts its server on an empty directory below the current one and, as root, with
an empty page cache. Both servers acknowledge a message before it is on the device. Prints the medians
of RUNS runs (by default 3): MB/s each way, and latencies in ms.
"""

import argparse
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

ADDRESS = ("127.0.0.1", 8190)
UPSTREAM = ("127.0.0.1", 8191)
PERCENTILES = ["p50", "p99", "p999", "p9999"]
DIRECTORY = os.path.abspath("loads-data")

PINNED = ["pinned-producer-and-consumer", "-p", "1", "-c", "1"]
LOADS = {
    "pinned producer": ["-T", "6GB", "pinned-producer", "-p", "1"],
    "pinned producer and consumer, {rate} MB/s each way": ["-r", "{both}MB", "-T", "8GB", *PINNED],
    "pinned producer and consumer": ["-T", "8GB", *PINNED],
    "two producers, group of two": [
        "-T", "6GB", "balanced-producer-and-consumer-group", "-p", "2", "-c", "2",
    ],
    "end to end, two clients": ["-T", "4GB", "end-to-end-producing-consumer", "-p", "2", "-s", "2"],
}
STUB_LOAD = "pinned producer"


def tailwater(program, address):
    """Starts `tailwater serve`."""
    arguments = ["serve", "--path", DIRECTORY, "--address", "%s:%d" % address]
    return start([program, *arguments, "--with-default-root-credentials"])


def iggy(program, config):
    """Starts Iggy's server with TCP only."""
    settings = {
        "IGGY_SYSTEM_PATH": DIRECTORY,
        "IGGY_TCP_ADDRESS": "%s:%d" % ADDRESS,
        "IGGY_ROOT_USERNAME": "iggy",
        "IGGY_ROOT_PASSWORD": "iggy",
        "IGGY_HTTP_ENABLED": "false",
        "IGGY_QUIC_ENABLED": "false",
        "IGGY_WEBSOCKET_ENABLED": "false",
    }
    if config:
        settings["IGGY_CONFIG_PATH"] = config
    return start([program], settings)


def start(command, settings=()):
    """Starts a process whose output is discarded."""
    environment = {**os.environ, **dict(settings)}
    null = subprocess.DEVNULL
    return subprocess.Popen(command, env=environment, stdout=null, stderr=null)


def wait_for(address):
    """Waits until a server listens on an address."""
    for _ in range(300):
        try:
            socket.create_connection(address).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("nothing listens on %s:%d" % address)


def empty():
    """Empties the directory and the page cache."""
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    os.mkdir(DIRECTORY)
    os.sync()
    if os.geteuid() == 0:
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3")


def servers(arguments):
    """Returns a function for each server, by name, that starts its processes; the last one is the one to measure."""
    found = {
        "tailwater": lambda: [tailwater(arguments.tailwater, ADDRESS)],
        "iggy": lambda: [iggy(arguments.iggy, arguments.iggy_config)],
    }
    if arguments.stub:
        found["stub"] = lambda: stub(arguments)
    return found


def stub(arguments):
    """Starts a server behind a proxy that drops messages."""
    server = tailwater(arguments.tailwater, UPSTREAM)
    wait_for(UPSTREAM)
    listen, upstream = "%s:%d" % ADDRESS, "%s:%d" % UPSTREAM
    return [server, start([arguments.stub, listen, upstream])]


def measure(bench, load, begin):
    """Runs a load once. Returns figures by (actor, figure)."""
    empty()
    processes = begin()
    try:
        wait_for(ADDRESS)
        command = [bench, *load, "tcp", "--server-address", "%s:%d" % ADDRESS]
        output = subprocess.run(command, capture_output=True, text=True, timeout=300).stdout
        output = re.sub(r"\x1b\[[0-9;]*m", "", output)
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGINT)
        for process in processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    figures = {}
    for actor, line in re.findall(r"(Producing Consumer|Producer|Consumer)s? Results: (.*)", output):
        figures[actor, "MB/s"] = float(re.search(r"Total throughput: ([\d.]+) MB/s", line)[1])
        for name in PERCENTILES:
            figures[actor, name] = float(re.search(name + r" latency: ([\d.]+) ms", line)[1])
    if not figures:
        sys.exit("the benchmark printed no result:\n" + output)
    return figures


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    for name in ["--bench", "--iggy", "--tailwater"]:
        parser.add_argument(name, required=True)
    parser.add_argument("--iggy-config")
    parser.add_argument("--stub")
    parser.add_argument("--load", default="")
    parser.add_argument("--rate", type=int, default=250)
    parser.add_argument("runs", type=int, nargs="?", default=3)
    arguments = parser.parse_args()

    print("| load | server | | MB/s | p50 | p99 | p99.9 | p99.99 |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for title, load in LOADS.items():
        if arguments.load not in title:
            continue
        load = [word.format(both=2 * arguments.rate) for word in load]
        runs = {}
        for _ in range(arguments.runs):
            for name, begin in servers(arguments).items():
                if name != "stub" or title == STUB_LOAD:
                    runs.setdefault(name, []).append(measure(arguments.bench, load, begin))
        for name, results in runs.items():
            for actor in dict.fromkeys(actor for actor, _ in results[0]):
                row = [statistics.median(run[actor, key] for run in results)
                       for key in ["MB/s", *PERCENTILES]]
                cells = ["%.0f" % row[0], *("%.2f" % value for value in row[1:])]
                title_cell = title.format(rate=arguments.rate)
                print("|", " | ".join([title_cell, name, actor.lower(), *cells]), "|", flush=True)
    shutil.rmtree(DIRECTORY, ignore_errors=True)


if __name__ == "__main__":
    main()
