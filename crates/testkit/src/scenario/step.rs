//! The steps of scenarios.

use std::collections::BTreeMap;

/// The contents of a database: values by key. The key of an entry in the column family `FAMILY` is
/// written as `FAMILY:KEY`, unless it is the default column family.
pub type Contents = BTreeMap<String, String>;

/// The engine that executes a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The engine under test (the engine of the scenario's target): Tailwater or RocksDB.
    Own,
    /// RocksDB, whichever engine the target has.
    RocksDb,
}

/// One step of a scenario.
#[derive(Debug, Clone)]
pub struct Step {
    /// The text of the step in the document, for messages.
    pub text: String,
    /// The engine that executes the step.
    pub engine: Engine,
    /// Whether the scenario accepts both success and failure of the step, the latter with any error
    /// message.
    pub may_fail: bool,
    /// The action.
    pub action: Action,
    /// The expected result.
    pub expected: Expected,
}

/// The expected result of a step. By default, a step must succeed, and
/// its contents and warnings are not checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// Texts that the error message must contain; empty if the step must succeed.
    pub fails: Vec<String>,
    /// The exact contents of the database that the step must find; `None` for any.
    pub contents: Option<Contents>,
    /// Texts that the warnings of the step must contain.
    pub warns: Vec<String>,
}

/// The action of a step. Paths are as written in the document: either relative to the working
/// directory, or absolute, with `/` denoting the root directory of the scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Creates a directory.
    MakeDirectory(String),
    /// Creates files that contain a few bytes and belong to no database.
    Write(Vec<String>),
    /// Copies a file, or a directory with its contents: from the first path to the second one.
    Copy(String, String),
    /// Renames a file or a directory from the first path to the second one. A `*` in both paths
    /// matches the same text.
    Rename(String, String),
    /// Removes the files and directories that match these patterns. Each pattern must match
    /// something.
    Remove(Vec<String>),
    /// Truncates a file to its first half.
    Cut(String),
    /// Creates a symbolic link. The first path is its target, the second one is its own path.
    Link(String, String),
    /// Copies a directory from the first path to the second one, with hard links to its files.
    HardLink(String, String),
    /// Changes the working directory.
    Enter(String),
    /// Unpacks the golden database with this name into the directory at the path.
    Unpack(String, String),
    /// Checks that at least one file matches each of these patterns.
    There(Vec<String>),
    /// Checks that no file matches any of these patterns.
    Gone(Vec<String>),
    /// Checks that the files that matched these patterns after the setup still exist, with the same
    /// bytes.
    Kept(Vec<String>),
    /// Sets the options with which later steps open the database at this path.
    With(String, Vec<(String, String)>),
    /// Executes an operation on the database at this path.
    Database(String, Work),
}

/// An operation on a database. Each operation opens the database, and closes it at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Puts entries, but does not flush them, so that afterwards only the log contains them. If the
    /// database does not exist, it is created.
    Put(Vec<(String, String)>),
    /// Flushes all memtables to tables.
    Flush,
    /// Compacts all tables of every column family.
    Compact,
    /// Creates a column family.
    CreateFamily(String),
    /// Drops a column family.
    DropFamily(String),
    /// Ingests a copy of a table that was built outside of the database.
    Ingest(String),
    /// Ingests a table that was built outside of the database, and moves its file into the
    /// database.
    Move(String),
    /// Creates a checkpoint at this path.
    Checkpoint(String),
    /// Destroys the database, which removes its files.
    Destroy,
    /// Opens the database for writing, and returns its contents.
    Open,
    /// Opens the database for writing, takes over directories that another database has claimed,
    /// and returns the contents.
    Adopt,
    /// Opens the database for reading only, and returns its contents.
    Look,
    /// Builds a table with these entries outside of any database. The path in [`Action::Database`]
    /// is then the path of the table's file.
    External(Vec<(String, String)>),
}
