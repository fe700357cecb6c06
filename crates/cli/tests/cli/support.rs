//! Helpers to run the program, and to create damaged databases.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tailwater::{OpenOptions, SstFileWriter};
use tailwater_testkit::dump::Entry;

/// The exit code and the output of a run of the program.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) output: String,
    pub(crate) complaints: String,
}

impl Answer {
    /// The JSON documents of the output, one on each line.
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        let lines = self.output.lines();
        lines.map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// The one JSON document of the output.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.output).expect("a JSON document")
    }

    /// Asserts that the run succeeded, and returns the output.
    #[track_caller]
    pub(crate) fn well(self) -> Self {
        assert_eq!((self.code, self.complaints.as_str()), (0, ""), "{}", self.output);
        self
    }

    /// Asserts that the run ended with this exit code and that the message contains these words,
    /// and returns the output.
    #[track_caller]
    pub(crate) fn ended(self, code: i32, words: &str) -> Self {
        assert_eq!(self.code, code, "{}{}", self.output, self.complaints);
        assert!(self.complaints.contains(words), "no '{words}' in: {}", self.complaints);
        self
    }
}

/// The program, to be run with more arguments.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tailwater"));
    command.stdin(Stdio::null());
    command
}

/// Runs `tailwater db VERB DIR ARGUMENT...`.
pub(crate) fn db<'a>(
    verb: &str,
    path: &Path,
    arguments: impl IntoIterator<Item = &'a str>,
) -> Answer {
    let mut command = program();
    command.arg("db").arg(verb).arg(path).args(arguments);
    run(command)
}

/// Runs `tailwater db VERB DIR ARGUMENT...` with `input` on standard input.
pub(crate) fn db_with_input<'a>(
    verb: &str,
    path: &Path,
    arguments: impl IntoIterator<Item = &'a str>,
    input: &[u8],
) -> Answer {
    let mut command = program();
    command.arg("db").arg(verb).arg(path).args(arguments);
    run_with_input(command, input)
}

/// Runs a command with `input` on standard input.
pub(crate) fn run_with_input(mut command: Command, input: &[u8]) -> Answer {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(input).expect("a file that can be written");
    std::io::Seek::rewind(&mut file).expect("a file that can be sought");
    command.stdin(file);
    run(command)
}

/// Runs the program with these arguments.
pub(crate) fn run_with(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Answer {
    let mut command = program();
    command.args(arguments);
    run(command)
}

/// Runs a command.
pub(crate) fn run(mut command: Command) -> Answer {
    let output = command.output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text in UTF-8");
    Answer {
        code: output.status.code().expect("an exit code, no signal"),
        output: text(output.stdout),
        complaints: text(output.stderr),
    }
}

/// Every read-only verb, with its arguments other than the directory.
pub(crate) const VERBS: [(&str, &[&str]); 12] = [
    ("get", &["0000000000000001"]),
    ("scan", &[]),
    ("dump", &["--all"]),
    ("verify", &[]),
    ("properties", &[]),
    ("stats", &[]),
    ("manifest", &[]),
    ("wal", &["--verbose"]),
    ("table", &["--blocks", "--entries", "--raw"]),
    ("blob", &[]),
    ("column-families", &[]),
    ("options", &[]),
];

/// Every verb that changes a database, with its arguments other than the directory.
pub(crate) const WRITING_VERBS: [(&str, &[&str]); 14] = [
    ("put", &["key", "value"]),
    ("delete", &["key"]),
    ("single-delete", &["key"]),
    ("delete-range", &["a", "b"]),
    ("merge", &["key", "operand"]),
    ("load", &["--format", "tsv", "-"]),
    // The ingestion fails, because no file exists at this path.
    ("ingest", &["/dev/null/file.sst"]),
    ("flush", &[]),
    ("compact", &[]),
    ("set-options", &["write_buffer_size=1m"]),
    ("create-column-family", &["more"]),
    ("drop-column-family", &["more"]),
    // The checkpoint fails, because nothing can be created at this path.
    ("checkpoint", &["/dev/null/copy"]),
    ("destroy", &["--yes"]),
];

/// Creates a table outside a database, with these keys, in order.
pub(crate) fn external_table(path: &Path, keys: &[&str]) {
    let mut writer = SstFileWriter::new(&OpenOptions::default(), "default").expect("a writer");
    writer.open(path).expect("a file");
    for key in keys {
        writer.put(key.as_bytes(), b"ingested").expect("a put");
    }
    writer.finish().expect("a whole file");
}

/// Returns the path of the last file in a directory, by name, whose name ends with `ending`.
pub(crate) fn file(directory: &Path, ending: &str) -> PathBuf {
    let names = tailwater_testkit::directory::snapshot(directory).into_keys();
    let found = names.filter(|path| path.to_string_lossy().ends_with(ending)).max();
    found.unwrap_or_else(|| panic!("a file *{ending}"))
}

/// The one MANIFEST of a directory.
pub(crate) fn manifest(directory: &Path) -> PathBuf {
    let names = tailwater_testkit::directory::snapshot(directory).into_keys();
    let mut manifests = names.filter(|path| path.to_string_lossy().contains("MANIFEST"));
    manifests.next().expect("a MANIFEST")
}

#[expect(clippy::disallowed_methods, reason = "test data, not a database's files")]
pub(crate) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("a file that can be read")
}

#[expect(clippy::disallowed_methods, reason = "test data, not a database's files")]
pub(crate) fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("a file that can be written");
}

/// Changes bytes of a file.
pub(crate) fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = read(path);
    change(&mut bytes);
    write(path, &bytes);
}

/// Returns bytes as escaped text, as specified in the documentation.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let one = |&byte: &u8| match byte {
        b'\\' => "\\\\".to_owned(),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    bytes.iter().map(one).collect()
}

/// Bytes in hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The contents of a database, as `dump --all --hex` prints it.
pub(crate) fn hex_dump(path: &Path) -> String {
    db("dump", path, ["--all", "--hex"]).well().output
}

/// The lines of `dump --all --hex` that show these entries.
pub(crate) fn hex_lines<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> String {
    entries.into_iter().map(|entry| entry.hex_line() + "\n").collect()
}
