//! Lockstep with the real RocksDB: the same random calls on both libraries, whose results are
//! compared, and at the end each library opens the other's database.
//!
//! The real library is the native part of `org.rocksdb:rocksdbjni`, which exports the C interface.
//! Without Java or Maven, the test reports that it was skipped. `TAILWATER_SEED` sets the seed of
//! the first sequence, and `TAILWATER_ROUNDS` multiplies the number of sequences; 0 runs only one.

#![expect(clippy::disallowed_methods, reason = "runs programs and writes scratch files")]

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};

    use tailwater_testkit::filesystem::say;

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
            let reason = String::from_utf8_lossy(&output.stderr).into_owned();
            say(&format!("LEFT OUT: the C interface of RocksDB: {reason}"));
            return None;
        }
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let entries = fs::read_dir(&directory).expect("the oracle");
        let mut paths = entries.map(|entry| entry.expect("a file").path());
        let is_library = |path: &PathBuf| path.extension().is_some_and(|it| it == "so");
        Some(paths.find(is_library).expect("the oracle has a shared library"))
    }

    fn ours() -> PathBuf {
        let test = std::env::current_exe().expect("the test's path");
        test.with_file_name("libtailwater_capi.so")
    }

    /// The sources of the program that runs sequences, in `tests/oracle/c`.
    const SOURCES: [&str; 11] = [
        "main",
        "accessors",
        "batches",
        "database",
        "files",
        "iterators",
        "lockstep",
        "options",
        "reads",
        "side",
        "writes",
    ];

    /// Compiles the program that runs sequences.
    fn compile(directory: &Path) -> PathBuf {
        let program = directory.join("lockstep");
        let sources = root().join("tests/oracle/c");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let output = Command::new(compiler)
            .args(["-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(root().join("include"))
            .args(SOURCES.iter().map(|name| sources.join(format!("{name}.c"))))
            .arg("-o")
            .arg(&program)
            .arg("-ldl")
            .output()
            .expect("a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }

    /// Returns the operations of the program, each with its weight.
    fn operations(program: &Path) -> Vec<(String, u32)> {
        let output = Command::new(program).output().expect("the program");
        let text = String::from_utf8(output.stdout).expect("text");
        let operation = |line: &str| {
            let (name, weight) = line.split_once(' ').expect("a name and a weight");
            (name.to_owned(), weight.parse().expect("a number"))
        };
        text.lines().map(operation).collect()
    }

    /// Returns the sequence of calls of a seed.
    fn sequence(operations: &[(String, u32)], seed: u64) -> Vec<String> {
        let mut random = fastrand::Rng::with_seed(seed);
        let total: u32 = operations.iter().map(|(_, weight)| weight).sum();
        let configuration: Vec<String> = (0..8).map(|_| random.u32(..1000).to_string()).collect();
        let mut lines = vec![format!("options {}", configuration.join(" "))];
        for _ in 0..random.usize(20..250) {
            let mut at = random.u32(..total);
            let mut remaining = operations.iter();
            let name = loop {
                let (name, weight) = remaining.next().expect("the weights' sum is `total`");
                match at.checked_sub(*weight) {
                    Some(rest) => at = rest,
                    None => break name,
                }
            };
            let numbers: Vec<String> = (0..4).map(|_| random.u32(..40).to_string()).collect();
            lines.push(format!("{name} {}", numbers.join(" ")));
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
                // Some options are relative paths.
                .current_dir(directory.path())
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

    /// Returns the sequence as a program in C.
    fn as_program(lines: &[String]) -> String {
        let calls: String = lines.iter().map(|line| format!("    \"{line}\",\n")).collect();
        let sources = SOURCES.iter().filter(|name| **name != "main");
        let sources: String = sources.map(|name| format!(" $D/{name}.c")).collect();
        format!(
            "/* D=crates/capi/tests/oracle/c; cc -g -I crates/capi/include -I $D this.c{sources} -ldl\n   \
             ./a.out OURS THEIRS DIRECTORY */\n#include \"lockstep.h\"\n\n\
             static const char* const script[] = {{\n{calls}    NULL,\n}};\n\n\
             int main(int count, char** arguments) {{\n  if (count != 4) return 2;\n  \
             return lockstep(script, arguments[1], arguments[2], arguments[3]);\n}}\n"
        )
    }

    #[test]
    fn both_libraries_give_the_same_results() {
        let Some(theirs) = theirs() else { return };
        let directory = tempfile::tempdir().expect("a directory");
        let setup = Setup { program: compile(directory.path()), ours: ours(), theirs };
        let operations = operations(&setup.program);
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let first = number("TAILWATER_SEED").unwrap_or_else(|| fastrand::u64(..1 << 40));
        let count = match number("TAILWATER_ROUNDS").unwrap_or(1) {
            0 => 1,
            rounds => rounds * SEQUENCES,
        };
        for seed in first..first + count {
            let lines = sequence(&operations, seed);
            let Err(difference) = setup.run(&lines) else { continue };
            // Without SIGALRM: each call that is left out of a sequence that waits forever would
            // take its whole time.
            let (shrunk, last) = if difference.contains("SIGALRM") {
                (lines, String::new())
            } else {
                let shrunk = setup.shrink(lines);
                // A difference that depends on the timing of threads may be gone.
                let last = setup.run(&shrunk).err().unwrap_or_default();
                (shrunk, last)
            };
            panic!(
                "TAILWATER_SEED={seed} TAILWATER_ROUNDS=0\n{difference}\nshrunk:\n{last}\n{}",
                as_program(&shrunk)
            );
        }
    }
}
