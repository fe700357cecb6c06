//! Lockstep with the real RocksDB: the same random calls on both libraries, whose results are
//! compared, and at the end each library opens the other's database.
//!
//! The real library is the native part of `org.rocksdb:rocksdbjni`, which exports the C interface.
//! Without Java or Maven, the test says so and is skipped. `TAILWATER_SEED` is the seed of the
//! first sequence, and `TAILWATER_ROUNDS` multiplies the number of sequences; with 0, there is one.

#![expect(clippy::disallowed_methods, reason = "runs programs and writes scratch files")]

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};

    /// Number of sequences in one round.
    const SEQUENCES: u64 = 200;

    fn root() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
    }

    /// Returns the path of the real library; `None`, after a message, if it cannot be fetched.
    fn theirs() -> Option<PathBuf> {
        let directory = std::env::temp_dir().join("tailwater-capi-oracle");
        let script = root().join("../../ci/oracle/fetch.sh");
        let output = Command::new("sh").arg(script).arg(&directory).output().expect("a shell");
        if output.status.code() == Some(2) {
            println!("skipped: {}", String::from_utf8_lossy(&output.stderr));
            return None;
        }
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let entries = fs::read_dir(&directory).expect("the oracle");
        let mut paths = entries.map(|entry| entry.expect("a file").path());
        paths.find(|path| path.extension().is_some_and(|extension| extension == "so"))
    }

    fn ours() -> PathBuf {
        let test = std::env::current_exe().expect("the test's path");
        test.with_file_name("libtailwater_capi.so")
    }

    /// Compiles the program that runs sequences.
    fn compile(directory: &Path) -> PathBuf {
        let program = directory.join("lockstep");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let output = Command::new(compiler)
            .args(["-std=c11", "-g", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(root().join("include"))
            .arg(root().join("tests/oracle/c/lockstep.c"))
            .arg("-o")
            .arg(&program)
            .arg("-ldl")
            .output()
            .expect("a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }

    /// Operations, each with its weight.
    const OPERATIONS: [(&str, u32); 32] = [
        ("put", 12),
        ("delete", 6),
        ("merge", 6),
        ("delete_range", 3),
        ("get", 10),
        ("multi_get", 4),
        ("batch_put", 6),
        ("batch_putv", 2),
        ("batch_delete", 3),
        ("batch_merge", 3),
        ("batch_log_data", 1),
        ("batch_print", 3),
        ("batch_write", 4),
        ("batch_clear", 1),
        ("iter_new", 4),
        ("iter_seek", 6),
        ("iter_seek_for_prev", 4),
        ("iter_first", 3),
        ("iter_last", 3),
        ("iter_next", 8),
        ("iter_prev", 6),
        ("iter_close", 1),
        ("snapshot", 3),
        ("release", 2),
        ("sequence", 2),
        ("flush", 3),
        ("compact", 2),
        ("flush_wal", 1),
        ("create_family", 3),
        ("drop_family", 1),
        ("property", 3),
        ("reopen", 1),
    ];

    /// Returns the sequence of calls of a seed.
    fn sequence(seed: u64) -> Vec<String> {
        let mut random = fastrand::Rng::with_seed(seed);
        let total: u32 = OPERATIONS.iter().map(|(_, weight)| weight).sum();
        let mut lines =
            vec![format!("options {} {} {}", random.u32(..24), random.u32(..3), random.u32(..5))];
        for _ in 0..random.usize(20..200) {
            let mut at = random.u32(..total);
            let mut operations = OPERATIONS.iter();
            let name = loop {
                let (name, weight) = operations.next().expect("the weights' sum is `total`");
                match at.checked_sub(*weight) {
                    Some(rest) => at = rest,
                    None => break name,
                }
            };
            let numbers = [random.u32(..6), random.u32(..40), random.u32(..40)];
            lines.push(format!("{name} {} {} {}", numbers[0], numbers[1], numbers[2]));
        }
        lines
    }

    /// The programs and libraries.
    struct Setup {
        program: PathBuf,
        ours: PathBuf,
        theirs: PathBuf,
    }

    impl Setup {
        /// Runs a sequence. Returns the first difference.
        fn run(&self, lines: &[String]) -> Result<(), String> {
            let directory = tempfile::tempdir().expect("a directory");
            let mut process = Command::new(&self.program)
                .args([&self.ours, &self.theirs])
                .arg(directory.path())
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the program");
            let mut stdin = process.stdin.take().expect("its input");
            // If the program has ended because of a difference, the rest is not read.
            let _ = stdin.write_all(lines.join("\n").as_bytes());
            drop(stdin);
            let output = process.wait_with_output().expect("the program ends");
            if output.status.success() {
                return Ok(());
            }
            Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
        }

        /// Removes the calls without which the sequence fails as well.
        fn shrink(&self, mut lines: Vec<String>) -> Vec<String> {
            let mut length = lines.len() / 2;
            while length > 0 {
                let mut at = 1;
                while at < lines.len() {
                    let mut fewer = lines.clone();
                    fewer.drain(at..(at + length).min(lines.len()));
                    match self.run(&fewer) {
                        Err(_) => lines = fewer,
                        Ok(()) => at += length,
                    }
                }
                length /= 2;
            }
            lines
        }
    }

    /// Returns the sequence as a program in C: it is the input of `lockstep.c`.
    fn as_program(lines: &[String]) -> String {
        let calls: String = lines.iter().map(|line| format!("      \"{line}\\n\"\n")).collect();
        format!(
            "/* cc -I crates/capi/include this.c -ldl && ./a.out OURS THEIRS DIRECTORY */\n\
             #define main lockstep\n#include \"crates/capi/tests/oracle/c/lockstep.c\"\n#undef main\n\
             int main(int count, char** arguments) {{\n  static char script[] =\n{calls};\n  \
             stdin = fmemopen(script, sizeof script - 1, \"r\");\n  \
             return lockstep(count, arguments);\n}}\n"
        )
    }

    #[test]
    fn both_libraries_give_the_same_results() {
        let Some(theirs) = theirs() else { return };
        let directory = tempfile::tempdir().expect("a directory");
        let setup = Setup { program: compile(directory.path()), ours: ours(), theirs };
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let first = number("TAILWATER_SEED").unwrap_or_else(|| fastrand::u64(..1 << 40));
        let count = match number("TAILWATER_ROUNDS").unwrap_or(1) {
            0 => 1,
            rounds => rounds * SEQUENCES,
        };
        for seed in first..first + count {
            let lines = sequence(seed);
            if let Err(difference) = setup.run(&lines) {
                let shrunk = setup.shrink(lines);
                // A difference that depends on the timing of threads may be gone.
                let last = setup.run(&shrunk).err().unwrap_or_default();
                panic!(
                    "TAILWATER_SEED={seed} TAILWATER_ROUNDS=0\n{difference}\nshrunk:\n{last}\n{}",
                    as_program(&shrunk)
                );
            }
        }
    }
}
