//! The steps of scenarios.

use std::collections::BTreeMap;

/// The contents of a database: keys with their values. A key of a column family other than the
/// default one is `FAMILY:KEY`.
pub type Contents = BTreeMap<String, String>;

/// The engine that executes a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The engine of the target on which the scenarios run.
    Own,
    /// RocksDB.
    RocksDb,
}

/// One step of a scenario.
#[derive(Debug, Clone)]
pub struct Step {
    /// The step's text.
    pub text: String,
    /// The engine that executes the step.
    pub engine: Engine,
    /// Whether the step may either succeed or fail, with any message.
    pub may_fail: bool,
    /// The action.
    pub action: Action,
    /// The expected result.
    pub expected: Expected,
}

/// The expected result of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// Words that the message of the step's failure must contain; empty if the step must succeed.
    pub fails: Vec<String>,
    /// The exact contents that the step must find.
    pub contents: Option<Contents>,
    /// Words that the step's warnings must contain.
    pub warns: Vec<String>,
}

/// The action of a step. Paths are as written: relative to the working directory, or absolute with
/// the directory of the scenario as their root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Creates a directory.
    MakeDirectory(String),
    /// Creates files with a few bytes that belong to no database.
    Write(Vec<String>),
    /// Copies a file, or a directory with its contents.
    Copy(String, String),
    /// Renames a file or a directory; a `*` in both names matches the same text.
    Rename(String, String),
    /// Removes existing files and directories.
    Remove(Vec<String>),
    /// Truncates a file to its first half.
    Cut(String),
    /// Creates a symbolic link: its target, and its path.
    Link(String, String),
    /// Copies a directory, with hard links to its files.
    HardLink(String, String),
    /// Changes the working directory.
    Enter(String),
    /// Unpacks a golden database into a directory.
    Unpack(String, String),
    /// Checks that for each pattern at least one matching file exists.
    There(Vec<String>),
    /// Checks that no matching file exists.
    Gone(Vec<String>),
    /// Checks that the files that matched after the setup still exist and have the same bytes.
    Kept(Vec<String>),
    /// Sets the options with which all later steps open the database at this path.
    With(String, Vec<(String, String)>),
    /// Runs an operation on the database at a path.
    Database(String, Work),
}

/// An operation on a database. Each operation opens the database, and closes it at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Puts entries, which are written only to the log. A missing database is created.
    Put(Vec<(String, String)>),
    /// Flushes memtables and logs to tables.
    Flush,
    /// Merges all tables.
    Compact,
    /// Creates a column family.
    CreateFamily(String),
    /// Drops a column family.
    DropFamily(String),
    /// Ingests a copy of a table that was built outside the database.
    Ingest(String),
    /// Ingests a table that was built outside the database by moving its file into the database.
    Move(String),
    /// Creates a checkpoint.
    Checkpoint(String),
    /// Removes the database.
    Destroy,
    /// Opens the database for writing, and returns its contents.
    Open,
    /// Opens the database for writing, and takes over directories that another database has
    /// claimed.
    Adopt,
    /// Opens the database for reading only, and returns its contents.
    Look,
    /// Builds a table outside any database. The path of the operation is the path of the table's
    /// file.
    External(Vec<(String, String)>),
}
