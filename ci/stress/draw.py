"""The options of db_stress, drawn by RocksDB's own tools/db_crashtest.py.

That script draws some options when it is loaded, for all runs on a database, and the others for each run. It is
therefore reloaded for each database. This file is the only place that overrides drawn options, each with the reason.
"""

import argparse
import contextlib
import importlib.util
import io
import os
import random
import sys
from pathlib import Path

# The modes of db_crashtest.py, each with its weight and arguments.
MODES = {
    "blackbox": (4, {"test_type": "blackbox"}),
    "whitebox": (3, {"test_type": "whitebox"}),
    "simple blackbox": (2, {"test_type": "blackbox", "simple": True}),
    "simple whitebox": (2, {"test_type": "whitebox", "simple": True}),
    "cf_consistency": (2, {"test_type": "blackbox", "cf_consistency": True}),
    "optimistic_txn": (1, {"test_type": "blackbox", "optimistic_txn": True}),
    "tiered_storage": (1, {"test_type": "blackbox", "test_tiered_storage": True}),
    "best_efforts_recovery": (1, {"test_type": "blackbox", "test_best_efforts_recovery": True}),
}

# Modes that are not drawn:
#   txn, multiops_txn    prepared transactions, which Tailwater refuses (allow_2pc)
#   enable_ts            keys with timestamps, which Tailwater refuses

# Options that are not drawn, because Tailwater deliberately refuses them or the files that they produce.
REFUSED = {
    # The fifth choice of db_crashtest.py, "custom", is left out: its blocks are compressed in a way
    # that only db_stress supports.
    "compression_manager": lambda: random.choice(["mixed", "none", "autoskip", "randommixed"]),
    # RocksDB would refuse tables without the user-defined index, and Tailwater builds none.
    "use_udi_as_primary_index": 0,
}

# Drawn options with which Tailwater refuses to open a database for writing, with their replacements.
OPENED_OTHERWISE = {
    # Tailwater does not archive logs, so a process that follows the database would miss log
    # records.
    "WAL_ttl_seconds": "0",
    "WAL_size_limit_MB": "0",
}

# Options of direct I/O, which a debug build of db_stress simulates if the filesystem refuses direct I/O. Tailwater then
# opens the database without them.
DIRECT = ["use_direct_reads", "use_direct_io_for_compaction_reads", "use_direct_io_for_flush_and_compaction"]

# Options that a release build of db_stress does not support.
RELEASE_BUILD = {"metadata_read_fault_one_in": 0, "read_fault_one_in": 0, "mock_direct_io": False}

# Numbers of keys per column family: few enough that a turn of seconds overwrites some keys and verifies all.
MAX_KEYS = [1000, 10_000, 40_000]

# Compaction styles, with the frequencies of whitebox_crash_main in db_crashtest.py.
COMPACTION_STYLES = [0, 0, 0, 0, 1, 1, 2]

# Flags that db_crashtest.py reads from its command line; all are false by default.
FLAGS = [
    "simple", "cf_consistency", "txn", "optimistic_txn", "test_best_efforts_recovery", "enable_ts",
    "test_multiops_txn", "test_tiered_storage",
]


def is_release_build():
    """Returns whether db_stress was built without assertions; db_crashtest.py reads the same variable."""
    return os.environ.setdefault("DEBUG_LEVEL", "0") == "0"


class Options:
    """The options of one database."""

    def __init__(self, crashtest, db_stress, database, expected, rng):
        """Draws the options that apply to all runs on the database. `crashtest` is the path of db_crashtest.py."""
        self.mode = rng.choices(list(MODES), [weight for weight, _ in MODES.values()])[0]
        seed = rng.getrandbits(32)
        style, max_key = rng.choice(COMPACTION_STYLES), rng.choice(MAX_KEYS)
        self._module = _load(crashtest, seed)
        self._module.stress_cmd = db_stress
        told = dict.fromkeys(FLAGS, False) | MODES[self.mode][1]
        random.seed(seed)
        self._drawn = self._module.gen_cmd_params(argparse.Namespace(**told))
        # The mode for tiered storage sets a compaction style itself.
        if "test_tiered_storage" not in MODES[self.mode][1]:
            self._drawn["compaction_style"] = style
            if style == 1 and rng.random() < 0.5:
                self._drawn["num_levels"] = 1
        self._drawn |= REFUSED | {"db": str(database), "expected_values_dir": str(expected), "max_key": max_key}
        if is_release_build():
            self._drawn |= RELEASE_BUILD

    def command(self, seed, **others):
        """Returns the command line of a run, and its options by name."""
        random.seed(seed)
        with contextlib.redirect_stdout(io.StringIO()):
            return self._module.gen_cmd(self._drawn | others, [])


def _load(path, seed):
    """Loads db_crashtest.py as a separate module, with a seed."""
    path = Path(path)
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location("db_crashtest", path)
    module = importlib.util.module_from_spec(spec)
    # The script takes its seed from the command line, and parses the rest of the line only when run as a program.
    before, sys.argv = sys.argv, [str(path), f"--initial_random_seed_override={seed or 1}"]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            spec.loader.exec_module(module)
    finally:
        sys.argv = before
    return module
