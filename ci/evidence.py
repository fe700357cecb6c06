#!/usr/bin/env python3
"""Runs the experiments of the published tables, and writes the tables.

usage: ci/evidence.py [PART ...] [--minutes N] [--directory DIR] [--built]
       ci/evidence.py --list
       ci/evidence.py --tables

Without arguments, all parts run, one after the other, which takes about six hours on two processors. Each part consists
of commands. A command that has ended is not repeated, and one that was interrupted continues where its program can
continue it, so the script may be stopped and started again at any time; --minutes stops it by itself before the
command that would begin later. A command whose arguments have changed is run again from the beginning; remove its
directory to repeat it. One that fails does not stop the others.

Results are in target/evidence: for each command its output, its report, and when and on which commit it was run; and in
tables.md the tables of all commands that have ended, each below its command. The commands need 45 GiB of free space in
--directory, on the disk to measure, root (for the memory limits), and libclang and liburing for RocksDB. Nothing else
should use the machine.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "target/evidence"
PEERS = "tailwater-peers"

# Columns of tables: a title, the path of the figure in the median (or mean) of a configuration's runs, and a factor.
READS = [
    ("reads/s", "reads_per_second"),
    ("CV", "variation.reads_per_second"),
    ("p50 us", "p50_us"),
    ("p90 us", "p90_us"),
    ("p99 us", "p99_us"),
    ("p99.9 us", "p999_us"),
    ("p99.9 CV", "variation.p999_us"),
    ("p99.99 us", "p9999_us"),
    ("max ms", "max_us/1000"),
]
WRITES = [("written MB/s", "write_mb_per_second")]
WORK = [
    ("compacted MB/s", "kernel.compaction_mb_per_second"),
    ("refaults/s", "kernel.refaulted_pages_per_second"),
    ("missed/s", "kernel.missed_pages_per_second"),
    ("cache hits %", "caches.cache_hit_ratio*100"),
    ("block cache hits %", "caches.block_cache_hit_ratio*100"),
    ("depth", "kernel.queue_depth"),
    ("waiting for a processor %", "run_queue_share*100"),
]
KERNEL = [
    ("dirty pages/s", "kernel.dirtied_pages_per_second"),
    ("memory us/s", "kernel.memory_stall_us_per_second"),
    ("active MiB", "kernel.active_file_pages/256"),
    ("r_await ms", "kernel.r_await_ms"),
    ("w_await ms", "kernel.w_await_ms"),
    ("busy %", "kernel.utilisation*100"),
    ("reads", "reads"),
]
ALONE = [
    ("kept %", "reads_kept*100"),
    ("reads/s alone", "baseline.reads_per_second"),
    ("p50 us alone", "baseline.p50_us"),
    ("p99.9 us alone", "baseline.p999_us"),
    ("p99.99 us alone", "baseline.p9999_us"),
]
CAUSES = [
    ("slow/s", "slow_reads.slow_reads_per_second"),
    ("mean us", "slow_reads.slow_reads_mean_us"),
    ("processor %", "slow_reads.time_shares.processor*100"),
    ("device %", "slow_reads.time_shares.device*100"),
    ("lock %", "slow_reads.time_shares.lock*100"),
    ("unpacking %", "slow_reads.time_shares.unpacking*100"),
    ("work %", "slow_reads.time_shares.work*100"),
    ("unexplained %", "slow_reads.time_shares.unexplained*100"),
    ("blocks", "slow_reads.blocks"),
    ("of new tables", "slow_reads.blocks_of_new_tables"),
    ("read by others", "slow_reads.blocks_read_by_others"),
    ("minor faults", "slow_reads.minor_faults"),
    ("major faults", "slow_reads.major_faults"),
]
MOMENTS = [("mean us", "mean_us"), ("stddev us", "stddev_us")]
AROUND = [
    ("fetched/s before", "before_compaction.fetched_pages_per_second"),
    ("p99 us before", "before_compaction.p99_us"),
    ("fetched/s after", "after_compaction.fetched_pages_per_second"),
    ("p99 us after", "after_compaction.p99_us"),
]


@dataclass
class Command:
    """One run of a program. Its name is that of its results."""

    name: str
    arguments: str
    minutes: float
    # The columns of each table, for the experiments of `tail`; other programs print their tables themselves.
    tables: list = field(default_factory=list)
    # Whether the tables have the means of the runs, and not the medians.
    has_means: bool = False
    # If set, the command runs on a simulated disk on which each flush takes this number of milliseconds.
    flush_ms: int = 0

    def line(self):
        """Returns the command line as a reader would type it."""
        disk = f" --directory DISK   # slow_disk ext4 {self.flush_ms}" if self.flush_ms else ""
        return f"{self.program()} {self.arguments}{disk}"

    def program(self):
        """Returns the name of the program."""
        return "tailwater" if self.arguments.startswith("log ") else PEERS


@dataclass
class Part:
    """A subject of the published pages. No part takes longer than 50 minutes."""

    name: str
    title: str
    commands: list


BOTH = "--engine both"
DIRECT = "buffered,direct_compaction_writes_only,direct_compaction_read_only,direct_compaction_read_write,direct_all"
FILTER = "block_based_table_factory={filter_policy=bloomfilter:10:false}"
OF_THE_COMMIT = "buffered,direct_compaction_read_only,direct_compaction_read_write,direct_all"


def published(hot_keys):
    """Returns the command of RocksDB's published experiment with one of its hot sets."""
    return Command(
        f"14743-{hot_keys}",
        f"tail --preset rocksdb-14743 --hot {hot_keys * 4096} {BOTH} --configurations {DIRECT},tailwater "
        "--write-rate calibrate --duration 30 --runs 3 --mean",
        40,
        [READS + WRITES, WORK],
        has_means=True,
    )


def explained(name, configurations, minutes, options=""):
    """Returns the command that says what the slow reads of the experiment with the larger hot set wait for."""
    return Command(
        f"14743-100000-{name}",
        f"tail --preset rocksdb-14743 --hot 409600000 --slow-reads 200{options} --configurations {configurations} "
        "--write-rate calibrate --duration 30 --runs 1",
        minutes,
        [READS + ALONE + WRITES, WORK, CAUSES],
    )


def no_compactions(limit, size, hot, readers):
    """Returns the command that compares reads beside compactions with reads alone."""
    return Command(
        f"alone-{limit}-{readers}",
        f"tail {BOTH} --configurations buffered,recommended --limit {limit} --size {size} --hot {hot} "
        f"--readers {readers} --write-rate 40M --duration 20 --runs 1 --warm",
        4.5,
        [READS + ALONE, WRITES + WORK],
    )


def causes(readers):
    """Returns the command that says what slow reads wait for. Timing each read costs RocksDB some of its reads."""
    return Command(
        f"causes-{readers}",
        f"tail {BOTH} --slow-reads 200 --configurations buffered,recommended --limit 512M --size 6700M --hot 205M "
        f"--readers {readers} --write-rate 40M --duration 20 --runs 1 --warm",
        4.5,
        [READS, CAUSES],
    )


def buffers(size):
    """Returns the command of Cassandra's experiment with writes of a size."""
    return Command(
        f"cassandra-buffers-{size >> 10}k",
        "tail --preset cassandra --unlimited-only --limit 512M --runs 3 "
        f"--configurations direct_compaction_writes_only --options writable_file_max_buffer_size={size}",
        4,
        [READS + MOMENTS, WORK, KERNEL],
    )


def log(rate):
    """Returns the command of the message log's experiment at a rate."""
    return Command(
        f"log-{rate}",
        "log bench --modes buffered,direct_inline_unsynced,direct_inline,direct_deferred --batch 20 --duration 20 "
        f"--rate {rate}MB --runs 3",
        4.5,
    )


PARTS = [
    Part("rocksdb-14743-small", "RocksDB's published experiment, 7,500 hot keys", [published(7_500)]),
    Part("rocksdb-14743-large", "RocksDB's published experiment, 100,000 hot keys", [published(100_000)]),
    Part(
        "rocksdb-14743-causes",
        "What slow reads of the larger hot set wait for, and the same with filters",
        [
            explained("causes", DIRECT, 7),
            explained("filter", "buffered,direct_compaction_read_write", 12, f' {BOTH} --options "{FILTER}"'),
        ],
    ),
    Part(
        "rocksdb-14743-more",
        "RocksDB's commit message, a hot set larger than memory, and a database of 43 times the limit",
        [
            Command(
                "14743-commit",
                f"tail --preset rocksdb-14743-commit {BOTH} --configurations {OF_THE_COMMIT} "
                "--write-rate calibrate --runs 1",
                30,
                [READS + WRITES, WORK],
            ),
            Command(
                "14743-larger-than-memory",
                f"tail {BOTH} --configurations buffered,direct_compaction_read_write,recommended --limit 512M "
                "--size 6700M --hot 120% --block-cache 300M --readers 4 --write-rate 20M --duration 30 --runs 1",
                8,
                [READS + WRITES, WORK],
            ),
            Command(
                "14743-43-times",
                f"tail {BOTH} --configurations buffered,direct_compaction_read_write,recommended --limit 256M "
                "--ratio 43 --hot 40% --readers 4 --write-rate 20M --duration 30 --runs 1",
                10,
                [READS + WRITES, WORK],
            ),
        ],
    ),
    Part(
        "cassandra",
        "Cassandra's experiment",
        [
            Command(
                "cassandra",
                "tail --preset cassandra --slow-reads 200 --limit 1G --duration 30 --runs 3",
                50,
                [READS + MOMENTS, WORK, KERNEL, AROUND, CAUSES],
            ),
        ],
    ),
    Part(
        "cassandra-more",
        "Cassandra's experiment with compression, low priority, and other sizes of writes",
        [
            Command(
                "cassandra-compressed",
                "tail --preset cassandra --slow-reads 200 --unlimited-only --limit 1G --duration 30 --runs 3 "
                "--options compression=kLZ4Compression",
                12,
                [READS + MOMENTS, WORK, KERNEL, AROUND, CAUSES],
            ),
            Command(
                "cassandra-low-priority",
                "tail --preset cassandra --slow-reads 200 --unlimited-only --limit 1G --duration 30 --runs 3 "
                "--configurations direct_compaction_read_write,no_compaction "
                "--tailwater-options low_priority_compactions=true",
                7,
                [READS + MOMENTS, WORK, KERNEL, AROUND, CAUSES],
            ),
            buffers(256 << 10),
            buffers(1 << 20),
        ],
    ),
    Part(
        "alone",
        "Reads beside compactions, compared with reads alone",
        [no_compactions("512M", "6700M", "205M", readers) for readers in (1, 2, 3, 4)]
        + [no_compactions("1G", "13400M", "410M", readers) for readers in (1, 2, 3, 4)]
        + [causes(readers) for readers in (1, 4)],
    ),
    Part(
        "snapshot-scans",
        "Scans of one snapshot (RocksDB 13354)",
        [
            Command("scans", "snapshot-scans --engines tailwater,rocksdb --steps 100000000", 12),
            Command("scans-async", "snapshot-scans --engines tailwater,rocksdb --async-io --steps 100000000", 12),
        ],
    ),
    Part(
        "long-snapshot-scans",
        "Scans of millions of entries (RocksDB 13354)",
        [
            Command(
                "scans-3500000",
                "snapshot-scans --engines tailwater,rocksdb --entries 3500000 --seek-nexts 3500000 --steps 87500000",
                7,
            ),
            Command(
                "scans-17500000",
                "snapshot-scans --engines tailwater,rocksdb --entries 17500000 --seek-nexts 17500000 "
                "--steps 87500000 --in-turn",
                17,
            ),
        ],
    ),
    Part(
        "synced",
        "Synced puts (RocksDB 14116)",
        [
            Command("synced", "durable --parts synced,fillseq --configurations buffered,direct --duration 3", 8),
            # All 10,000 puts of the published experiment would take half an hour at 58 a second.
            Command("synced-slow", "durable --parts fillseq --num 1500 --configurations buffered,direct", 4, flush_ms=8),
        ],
    ),
    Part("log", "The message log (Iggy 3068)", [log(rate) for rate in (150, 200, 250)]),
]


def arguments():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", choices=[part.name for part in PARTS] + [[]])
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no command that would end later")
    parser.add_argument("--directory", type=Path, default=ROOT / "target/evidence-databases", help="for the databases")
    parser.add_argument("--built", action="store_true", help="use the existing build")
    parser.add_argument("--list", action="store_true", help="print the parts and their durations")
    parser.add_argument("--tables", action="store_true", help="only write the tables of what has ended")
    return parser.parse_args()


def main():
    """Runs what has not ended, and writes the tables."""
    given = arguments()
    parts = [part for part in PARTS if not given.parts or part.name in given.parts]
    if given.list:
        for part in parts:
            minutes = sum(command.minutes for command in part.commands)
            print(f"{part.name:24} {minutes:5.0f} min  {part.title}")
        return 0
    if not given.tables:
        if not given.built:
            build()
        is_complete = run_all(parts, given)
    write_tables()
    return 0 if given.tables or is_complete else 1


def build():
    """Builds the programs."""
    packages = ["-p", PEERS, "-p", "tailwater-cli", "-p", "tailwater-testkit"]
    subprocess.run(["cargo", "build", "--release", "--locked", *packages], cwd=ROOT, check=True)


def run_all(parts, given):
    """Runs the commands that have not ended, as long as there is time. Returns whether none failed."""
    deadline = time.monotonic() + given.minutes * 60
    waiting = [command for part in parts for command in part.commands if not has_ended(command)]
    for state in Path("/sys/kernel/mm/damon/admin/kdamonds").glob("*/state"):
        if state.read_text().strip() == "on":
            print(f"DAMON pages out memory, which disturbs the reads: echo off > {state}", flush=True)
    is_complete = True
    for command in waiting:
        if time.monotonic() + command.minutes * 60 > deadline:
            print(f"{command.name}: not begun, it takes about {command.minutes:.0f} minutes", flush=True)
        elif command.flush_ms:
            with slow_disk(command.flush_ms) as directory:
                is_complete &= run(command, directory)
        else:
            # A directory of its own for each command, because source databases are large, and stay after a command that
            # was interrupted.
            directory = given.directory.resolve() / command.name
            is_complete &= run(command, directory)
            if has_ended(command):
                shutil.rmtree(directory)
    return is_complete


@contextmanager
def slow_disk(flush_ms):
    """Mounts a disk with slow flushes; needs root and FUSE."""
    line = [ROOT / "target/release/slow_disk", "ext4", str(flush_ms)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as disk:
        directory = disk.stdout.readline().strip()
        if not directory:
            sys.exit("the slow disk was not mounted")
        yield Path(directory)


def has_ended(command):
    """Whether the results of exactly this command are there."""
    ended = RESULTS / command.name / "ended"
    return ended.exists() and ended.read_text().splitlines()[0] == command.line()


def run(command, directory):
    """Runs a command; its output is in its directory, its report, too. Returns whether it succeeded."""
    out = RESULTS / command.name
    begun = out / "begun"
    if not begun.exists() or begun.read_text() != command.line():
        shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    begun.write_text(command.line())
    directory.mkdir(parents=True, exist_ok=True)
    line = [ROOT / "target/release" / command.program(), *shlex.split(command.arguments), "--directory", directory]
    if command.tables:
        line += ["--out", out, "--resume"]
    elif command.program() == "tailwater":
        line += ["--out", out / "report.json"]
    elif command.arguments.startswith("durable "):
        line += ["--out", out / "report"]
    began = time.monotonic()
    print(f"{command.name}: {command.line()}", flush=True)
    with (out / "output.txt").open("w") as output, (out / "progress.txt").open("a") as progress:
        ended = subprocess.run(list(map(os.fspath, line)), cwd=ROOT, stdout=output, stderr=progress)
    minutes = (time.monotonic() - began) / 60
    if ended.returncode != 0:
        print(f"{command.name} failed after {minutes:.1f} minutes: see {out / 'progress.txt'}", flush=True)
        return False
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    today = time.strftime("%Y-%m-%d", time.gmtime())
    (out / "ended").write_text(f"{command.line()}\n{today}, commit {commit}")
    print(f"{command.name}: {minutes:.1f} minutes", flush=True)
    return True


def write_tables():
    """Writes the tables of all commands that have ended."""
    text = []
    for part in PARTS:
        ended = [command for command in part.commands if has_ended(command)]
        if ended:
            text.append(f"## {part.title}\n")
        for command in ended:
            _, when = (RESULTS / command.name / "ended").read_text().splitlines()
            text += [f"```sh\n{command.line()}\n```\n", f"{when}.\n", tables_of(command)]
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "tables.md").write_text("\n".join(text))
    print(f"tables: {RESULTS / 'tables.md'}")


def tables_of(command):
    """Returns the tables of a command in Markdown."""
    out = RESULTS / command.name
    if not command.tables:
        text = (out / "output.txt").read_text()
        return text if "\n|" in text else f"```text\n{text}```\n"
    reports = [json.loads(path.read_text()) for path in sorted(out.rglob("report.json"))]
    average = "mean" if command.has_means else "median"
    return "\n".join(rows_of(report, columns, average) for report in reports for columns in command.tables)


def rows_of(report, columns, average):
    """Returns the configurations of a report as a table."""
    rows = []
    for row in report["configurations"]:
        rate = row.get("compaction_bytes_per_second")
        label = row["name"] + (f" {rate >> 20} MiB/s" if rate else "") + (" !" if row.get("unequal_work") else "")
        rows.append([row["engine"], label] + [cell(row, path, average) for _, path in columns])
    shown = [at for at in range(len(columns)) if any(row[at + 2] not in ("-", "0") for row in rows)]
    titles = ["engine", "configuration"] + [columns[at][0] for at in shown]
    lines = [titles, ["---", "---"] + ["---:"] * len(shown)]
    lines += [row[:2] + [row[at + 2] for at in shown] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def cell(row, path, average):
    """Returns a figure of a configuration with three significant digits."""
    factor = 1.0
    if "*" in path:
        path, times = path.split("*")
        factor = float(times)
    elif "/" in path:
        path, by = path.split("/")
        factor = 1 / float(by)
    value = row if path.startswith("variation.") else row[average]
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return "-"
    return f"{value * 100:.0f} %" if path.startswith("variation.") else number(value * factor)


def number(value):
    """Formats a figure with three significant digits."""
    for limit, unit in ((999_500, 1e6), (9_995, 1e3)):
        if abs(value) >= limit:
            return f"{value / unit:.3g}{'M' if unit == 1e6 else 'k'}"
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


if __name__ == "__main__":
    sys.exit(main())
