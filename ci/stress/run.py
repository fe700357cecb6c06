#!/usr/bin/env python3
"""Alternates RocksDB's stress tool and Tailwater on one directory, and kills both at random times.

usage: ci/stress/run.py --db-stress PATH [--minutes 60] [--seed N]

db_stress writes, reads and compacts a database under random options, and keeps the expected state of each key.
Tailwater's program, `stress_turn` of crates/testkit, then opens the directory with its OPTIONS file, compares the
contents with that state, works without changing any key (it flushes, compacts, rewrites keys with their values, puts
and deletes keys outside the range of db_stress, writes range tombstones that cover no key, creates checkpoints and
column families, and reopens the database with other options) and compares again. Then db_stress continues, and
verifies all keys when it opens the database. Either program is killed by SIGKILL at random times; then either the
other one recovers the database, or the same one again. After several turns a new database is created, with other
options.

The options are drawn by tools/db_crashtest.py of the RocksDB checkout from which db_stress was built. The checkout is
searched above the path of db_stress, or given by --rocksdb. `draw.py` lists the few options that are not drawn, with
the reasons. The seed determines the options and the turns, but neither the times of kills within a run nor the
scheduling of threads.

If db_stress was built with assertions, which supports more options, set the variable DEBUG_LEVEL=1.

Ends at the first failure, keeps its directory and prints how to inspect it; otherwise prints counts of the work done.
These include how often direct I/O of compactions was in effect when an option asked for it, and how often iterators
refreshed themselves. On a filesystem without direct I/O, such as tmpfs, the run does not fail, and the counts say so.
"""

import argparse
import itertools
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from draw import is_release_build
from life import Failed, Figures, Life

ROOT = Path(__file__).resolve().parents[2]


def arguments():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db-stress", type=Path, default=os.environ.get("DB_STRESS"), help="or the variable DB_STRESS")
    parser.add_argument("--rocksdb", type=Path, help="the RocksDB checkout")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--database", type=int, help="run only the database with this number")
    parser.add_argument("--turn-seconds", type=float, default=8, help="maximum duration of a turn")
    parser.add_argument("--work", type=Path, default=ROOT / "target/stress", help="directory for the databases")
    parser.add_argument("--without-tailwater", action="store_true", help="run only RocksDB's turns")
    parser.add_argument("--tailwater-options", action="append", default=[], help="an additional option of Tailwater")
    parser.add_argument("--built", action="store_true", help="use the existing build of Tailwater's programs")
    given = parser.parse_args()
    if not given.db_stress:
        parser.error("set --db-stress or the variable DB_STRESS to the path of db_stress")
    given.db_stress = Path(given.db_stress).resolve()
    if given.rocksdb is None:
        found = [path for path in given.db_stress.parents if (path / "tools/db_crashtest.py").exists()]
        if not found:
            parser.error(f"there is no tools/db_crashtest.py above {given.db_stress}: set --rocksdb to the checkout")
        given.rocksdb = found[0]
    given.crashtest = given.rocksdb / "tools/db_crashtest.py"
    return given


def build(setup):
    """Builds Tailwater's programs, with assertions."""
    packages = ["-p", "tailwater-testkit", "--bin", "stress_turn", "-p", "tailwater-cli", "--bin", "tailwater"]
    cargo = [os.environ.get("CARGO", "cargo"), "build", "--quiet", "--locked", *packages]
    if not setup.built:
        subprocess.run(cargo, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    setup.stress_turn = target / "debug/stress_turn"
    setup.tailwater = target / "debug/tailwater"


def campaign(setup, figures):
    """Runs the lives of databases, one after the other, until the time is up. Returns whether all succeeded."""
    began = time.monotonic()
    deadline = began + 60 * setup.minutes
    numbers = itertools.count(1) if setup.database is None else [setup.database]
    for number in numbers:
        life = Life(setup, number, random.Random(f"{setup.seed} {number}"), figures)
        try:
            life.run(deadline)
        except Failed as failure:
            print(f"FAILED in turn {life.turn} of database {number}: {failure}\n\n{life.how_to_look()}", flush=True)
            return False
        if time.monotonic() > deadline:
            break
    return True


def main():
    setup = arguments()
    setup.work.mkdir(parents=True, exist_ok=True)
    setup.work = setup.work.resolve()
    print(f"seed {setup.seed}, {'release' if is_release_build() else 'debug'} build of {setup.db_stress}", flush=True)
    build(setup)
    figures, began = Figures(), time.monotonic()
    with tempfile.TemporaryDirectory(dir=setup.work) as scratch:
        # db_crashtest.py creates a file when it is loaded.
        os.environ["TEST_TMPDIR"] = scratch
        setup.environment = dict(os.environ)
        went_well = campaign(setup, figures)
    print(f"\n{figures.report(time.monotonic() - began)}")
    return 0 if went_well else 1


if __name__ == "__main__":
    sys.exit(main())
