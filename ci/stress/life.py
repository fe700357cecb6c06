"""The life of one database, on which db_stress and Tailwater work in turns."""

import collections
import re
import shlex
import shutil
import time

import process
from draw import DIRECT, OPENED_OTHERWISE, Options

# Lines that db_stress prints once it has opened the database and verified all keys.
OPERATES = "Starting database operations"
VERIFIED = "Crash-recovery verification passed"
# Messages of db_stress on standard error that do not indicate a failure.
HARMLESS = re.compile(r"open_files_async requires skip_stats_update_on_db_open")
# Maximum duration of a run that is not meant to be killed, in seconds. After this time, a run that
# still uses the processor is killed as slow; a run that does not counts as hanging.
PATIENCE = 300

# Lines of Tailwater's program: the I/O mode of compactions after an opening, and an opening that failed because the
# filesystem refuses direct I/O.
MODE = re.compile(r"^compaction_(read|write): asked (\w+) .*, effective (.*)$", re.MULTILINE)
REFUSED = re.compile(r"^refused: ", re.MULTILINE)

# Messages that indicate that db_stress failed because of an error that it had injected itself, or
# because of a file into which it had injected an error.
INJECTED = re.compile(r"injected[a-z ]* error|Seen error\. Skip writing buffer")


class Failed(Exception):
    """A failure that must not occur."""


class Stumbled(Exception):
    """RocksDB itself failed: after an error that db_stress injected, or before Tailwater opened the database."""


class Life:
    """One database: its directory, its options and its turns."""

    def __init__(self, setup, number, rng, figures):
        self.setup = setup
        self.number = number
        self.rng = rng
        self.figures = figures
        self.root = setup.work / f"life-{number}"
        shutil.rmtree(self.root, ignore_errors=True)
        self.database = self.root / "db"
        self.expected = self.root / "expected"
        self.scratch = self.root / "tmp"
        for directory in [self.database, self.expected, self.scratch]:
            directory.mkdir(parents=True)
        self.environment = dict(setup.environment, TEST_TMPDIR=str(self.scratch))
        self.options = Options(setup.crashtest, setup.db_stress, self.database, self.expected, rng)
        self.turn = 0
        self.steps = 0
        # Whether any run of db_stress kept a state for each key, and whether any run did not. Both
        # can be true, because db_crashtest.py changes test_batches_snapshots together with
        # disable_wal.
        self.had_numbered_keys = self.had_other_keys = False
        # Whether Tailwater has not yet opened the database.
        self.is_untouched = True
        self.last = {}

    def run(self, deadline):
        """Takes turns until this database has had its number of turns or the time is up."""
        self.figures["databases created"] += 1
        try:
            self.take_turns(deadline)
        except Stumbled as reason:
            print(f"database {self.number} ends here: {reason}", flush=True)
            self.figures["databases abandoned because RocksDB itself failed"] += 1
        shutil.rmtree(self.root)

    def take_turns(self, deadline):
        """Takes turns, and finally makes RocksDB verify the database."""
        for self.turn in range(1, self.rng.randint(3, 9) + 1):
            self.rocksdb_turn()
            if not self.setup.without_tailwater:
                self.tailwater_turn()
            if time.monotonic() > deadline:
                break
        self.rocksdb_verifies()

    # RocksDB's turn

    def rocksdb_turn(self):
        """Runs db_stress, and kills it or lets it finish."""
        rng, whitebox = self.rng, "whitebox" in self.options.mode
        seed, kills, early = rng.getrandbits(32), rng.random() < 0.75, rng.random() < 0.2
        moment = rng.uniform(0, self.setup.turn_seconds)
        operations = rng.randint(100, 1000)
        others = {"threads": rng.choice([4, 8, 16, 32])}
        if not kills:
            others["ops_per_thread"] = operations
        elif whitebox:
            others["ops_per_thread"] = 20 * operations
        command, self.last = self.options.command(seed, **others)
        self.count_options()
        ended = self.db_stress(command, "rocksdb", moment if kills else None, None if early else OPERATES)
        self.figures["turns of RocksDB"] += 1
        self.figures["kills of RocksDB"] += ended.killed

    def rocksdb_verifies(self):
        """Makes db_stress open the database, bring its expected state up to date, verify all keys and close."""
        # db_stress ends when no compaction is left. This never happens if every table is due for a
        # periodic compaction every second or two. With few open files, db_stress opens a table for
        # nearly every key, and its listener sleeps during each opening.
        others = {"verification_only": 1, "periodic_compaction_seconds": 0, "open_files": -1}
        command, self.last = self.options.command(self.rng.getrandbits(32), **others)
        self.db_stress(command, "verification", None, None)

    def db_stress(self, command, name, kill_after, after_line):
        """Runs db_stress. Output on standard error is a failure, as in db_crashtest.py."""
        self.keep_copy()
        self.had_numbered_keys |= self.has_numbered_keys()
        self.had_other_keys |= not self.has_numbered_keys()
        log = self.log(name)
        ended = process.run(command, log, kill_after, after_line, PATIENCE, self.environment)
        ended.killed |= ended.slow
        self.figures["runs of RocksDB killed for being too slow"] += ended.slow
        self.tell(f"{name} ({self.options.mode})", ended)
        complaints = [line for line in ended.err.splitlines() if line.strip() and not HARMLESS.search(line)]
        if complaints or not (ended.killed or ended.code == 0):
            message = f"db_stress failed with {ended.code}, see {log}:\n" + "\n".join(complaints[:20])
            is_own = self.is_untouched or INJECTED.search(ended.err)
            raise Stumbled(message) if is_own else Failed(message)
        if VERIFIED in ended.out and self.has_numbered_keys():
            self.figures["keys verified by RocksDB"] += self.last["max_key"] * self.families()
        return ended

    def count_options(self):
        """Records the option values that were drawn."""
        for name, value in self.last.items():
            self.figures.drawn[name].add(str(value))

    def families(self):
        """Returns the number of column families of db_stress."""
        return self.last.get("column_families") or 10

    def has_numbered_keys(self):
        """Returns whether db_stress keeps a state for each key and verifies all keys."""
        last = self.last
        special = ["test_batches_snapshots", "test_cf_consistency", "skip_verifydb"]
        return not any(int(last.get(name) or 0) for name in special)

    # Tailwater's turn

    def tailwater_turn(self):
        """Runs Tailwater's program, with kills; the last run finishes, or RocksDB recovers after its kill."""
        rng = self.rng
        restores, abandons = rng.random() < 0.6, rng.random() < 0.35
        kills = rng.choice([0, 0, 1, 1, 2, 3])
        seeds = [rng.getrandbits(32) for _ in range(5)]
        moments = [rng.uniform(0, self.setup.turn_seconds) for _ in range(5)]
        if self.has_history() and restores:
            self.rocksdb_verifies()
        reference = self.root / "reference"
        reference.unlink(missing_ok=True)
        told = self.tailwater_arguments(reference, abandons)
        self.verify("before")
        for seed, moment in list(zip(seeds, moments))[:kills]:
            self.tailwater(told, seed, moment)
        self.tailwater(told, seeds[4], moments[4] if abandons else None)
        self.verify("after")
        self.figures["turns of Tailwater"] += 1

    def tailwater_arguments(self, reference, abandons):
        """Returns the arguments of Tailwater's program for all runs of a turn."""
        last = self.last
        told = ["--reference", reference, "--max-key", last["max_key"]]
        told += ["--entity-one-in", last.get("use_put_entity_one_in") or 0]
        overrides = [f"{name}={value}" for name, value in OPENED_OTHERWISE.items()]
        if last.get("mock_direct_io"):
            overrides += [f"{name}=false" for name in DIRECT]
        overrides += self.setup.tailwater_options
        told += ["--options", ";".join(overrides)]
        if self.has_history():
            # db_stress will replay as many of its recorded writes as the database's sequence number
            # indicates, so Tailwater must not change this number.
            told.append("--keeps-sequence")
        elif not self.had_other_keys:
            told += ["--expected", self.expected / "LATEST.state"]
        if not self.had_numbered_keys:
            told.append("--any-keys")
        if abandons:
            told.append("--settled")
        modes_without = ["use_multiscan", "use_txn", "test_batches_snapshots"]
        if any(int(last.get(name) or 0) for name in modes_without):
            told.append("--no-delete-range")
        return told

    def tailwater(self, told, seed, kill_after):
        """Runs Tailwater's program, and kills it or lets it finish."""
        self.keep_copy()
        self.is_untouched = False
        milliseconds = int(1000 * self.setup.turn_seconds)
        command = [self.setup.stress_turn, self.database, *told, "--seed", seed, "--milliseconds", milliseconds]
        log = self.log("tailwater")
        ended = process.run(command, log, kill_after, None, PATIENCE, self.environment)
        self.tell("tailwater", ended)
        self.figures["runs of Tailwater"] += 1
        self.figures["kills of Tailwater"] += ended.killed
        checked = re.findall(r"^(\d+) keys are as db_stress expects", ended.out, re.MULTILINE)
        self.figures["keys verified by Tailwater"] += sum(map(int, checked))
        for number, what in re.findall(r"(\d+) ([a-z ]+)", " ".join(re.findall(r"^did (.*)", ended.out, re.MULTILINE))):
            self.figures.work[what.strip()] += int(number)
        self.figures["openings for which the filesystem refused direct I/O"] += len(REFUSED.findall(ended.out))
        for access, asked, effective in MODE.findall(ended.out):
            if asked in ["direct", "auto"]:
                self.figures.modes[access][effective] += 1
        if not (ended.killed or ended.code == 0):
            said = [line for line in ended.out.splitlines() if line.startswith("FAILED")]
            raise Failed(f"Tailwater failed with {ended.code}, see {log}:\n" + "\n".join(said) + ended.err[-2000:])

    def verify(self, when):
        """Makes `tailwater db verify` read every byte. A kill may leave a torn tail (exit code 3)."""
        log = self.log(f"verify-{when}")
        ended = process.run([self.setup.tailwater, "db", "verify", self.database], log, timeout=PATIENCE)
        if ended.code not in [0, 3]:
            raise Failed(f"tailwater db verify found damage {when} Tailwater's turn, see {log}:\n{ended.out[-3000:]}")

    def has_history(self):
        """Returns whether db_stress recorded recent writes, some of which may be lost, instead of their result."""
        return any(re.fullmatch(r"\d+\.state", path.name) for path in self.expected.iterdir())

    # Records

    def keep_copy(self):
        """Copies the database and the expected state before a run."""
        copy = self.root / "before"
        shutil.rmtree(copy, ignore_errors=True)
        for directory in [self.database, self.expected]:
            # The kernel may still be completing the last operations of a killed process, so files
            # may be renamed or removed during the copy.
            shutil.copytree(directory, copy / directory.name, ignore_dangling_symlinks=True)

    def log(self, name):
        """Returns the file for the output of the next run."""
        self.steps += 1
        return self.root / f"{self.steps:03}-turn-{self.turn}-{name}.log"

    def tell(self, what, ended):
        """Reports a run."""
        end = "killed" if ended.killed else f"ended with {ended.code}"
        print(f"database {self.number}, turn {self.turn}: {what}, {end}", flush=True)

    def how_to_look(self):
        """Returns instructions for inspecting a failure."""
        db = shlex.quote(str(self.root))
        return "\n".join([
            f"files: {self.root}",
            "    *.log                   the output of each run; the first line is its command",
            "    db, expected            the database and the state of db_stress, as the failure left them",
            "    before/                 both as they were before the run that failed",
            "    reference               the contents of the database when Tailwater's turn began",
            "to inspect the state before the failed run:",
            f"    {self.setup.tailwater} db verify {db}/before/db",
            f"    {self.setup.tailwater} db dump --hex {db}/before/db",
            "    replace db and expected by the contents of before/, and rerun the command of the last log",
            "to repeat the same draws, with other times of kills:",
            f"    ci/stress/run.py --seed {self.setup.seed} --database {self.number}",
            "to run RocksDB alone, which shows whether db_stress itself fails:",
            f"    ci/stress/run.py --seed {self.setup.seed} --database {self.number} --without-tailwater",
        ])


class Figures(collections.Counter):
    """Counts of the work done."""

    def __init__(self):
        super().__init__()
        self.drawn = collections.defaultdict(set)
        self.work = collections.Counter()
        # For reads and writes of compactions, the number of Tailwater's openings that asked for direct I/O, by the
        # mode in effect.
        self.modes = {"read": collections.Counter(), "write": collections.Counter()}

    def report(self, seconds):
        """Returns the figures as lines."""
        values = sum(map(len, self.drawn.values()))
        lines = [f"{name}: {self[name]}" for name in NAMES]
        lines.append(f"options drawn: {len(self.drawn)}, with {values} values")
        work = ", ".join(f"{number} {what}" for what, number in self.work.most_common())
        lines.append(f"Tailwater's work in runs that ended: {work}")
        lines += [self.direct_io(access) for access in self.modes]
        lines.append(self.refreshes())
        lines.append(f"seconds: {seconds:.0f}")
        return "\n".join(lines)

    def direct_io(self, access):
        """Returns a line: how often direct I/O of compactions was in effect when it was asked for."""
        modes = self.modes[access]
        asked = sum(modes.values())
        line = f"direct compaction {access}s: in effect in {modes['direct']} of {asked} openings that asked for them"
        others = [f"{number} were {mode}" for mode, number in modes.items() if mode != "direct"]
        return f"{line}; the filesystem does not perform direct I/O: {', '.join(others)}" if others else line

    def refreshes(self):
        """Returns a line: how often iterators refreshed themselves.

        An iterator that is due for a refresh and does not refresh itself makes Tailwater's program fail. That none was
        due can happen in a short run, and is no failure.
        """
        refreshing, refreshed = self.work["refreshing iterators"], self.work["iterators refreshed"]
        line = f"refreshing iterators: {refreshed} of {refreshing} refreshed themselves"
        if refreshing and not refreshed:
            line += ", so this run did not test refreshes of iterators"
        return f"{line}; ranges due for a refresh: {self.work['ranges due for a refresh']}"


# The figures, in the order of the report.
NAMES = [
    "databases created", "turns of RocksDB", "kills of RocksDB", "turns of Tailwater", "runs of Tailwater",
    "kills of Tailwater", "keys verified by RocksDB", "keys verified by Tailwater",
    "databases abandoned because RocksDB itself failed", "runs of RocksDB killed for being too slow",
    "openings for which the filesystem refused direct I/O",
]
