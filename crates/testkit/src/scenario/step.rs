//! The steps of scenarios.

use std::collections::BTreeMap;

/// What a database holds: keys with their values. A key of a column family other than the default
/// one is `FAMILY:KEY`.
pub type Contents = BTreeMap<String, String>;

/// Who carries out a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Whoever the scenarios are run with.
    Own,
    /// RocksDB.
    RocksDb,
}

/// One step of a scenario.
#[derive(Debug, Clone)]
pub struct Step {
    /// As it is written.
    pub text: String,
    /// Who carries it out.
    pub engine: Engine,
    /// Whether it may fail where nothing is expected of it.
    pub may_fail: bool,
    /// What is to be done.
    pub action: Action,
    /// What must come of it.
    pub expected: Expected,
}

/// What must come of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// It must fail, with all of these words in its message; none if it must succeed.
    pub fails: Vec<String>,
    /// It must find exactly this.
    pub contents: Option<Contents>,
    /// It must warn of something, with all of these words.
    pub warns: Vec<String>,
}

/// What a step does. Paths are as they are written: relative to the working directory, or absolute
/// with the directory of the scenario as their root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Makes a directory.
    MakeDirectory(String),
    /// Makes files with a few bytes that are no database's.
    Write(Vec<String>),
    /// Copies a file, or a directory with all that is in it.
    Copy(String, String),
    /// Renames a file or a directory; a `*` in both names stands for the same.
    Rename(String, String),
    /// Removes files and directories, which must be there.
    Remove(Vec<String>),
    /// Cuts the second half of a file off.
    Cut(String),
    /// Makes a symbolic link: where it leads, and its path.
    Link(String, String),
    /// Copies a directory, but not the files in it, which get second names.
    HardLink(String, String),
    /// Makes relative paths begin elsewhere.
    Enter(String),
    /// Puts the files of a golden database into a directory.
    Unpack(String, String),
    /// Files that match must be there.
    There(Vec<String>),
    /// None that matches may be there.
    Gone(Vec<String>),
    /// Those that matched when the scenario had been made must be there, with the same bytes.
    Kept(Vec<String>),
    /// Gives the options for all further openings by that path.
    With(String, Vec<(String, String)>),
    /// Does something to the database at a path.
    Database(String, Work),
}

/// What can be done to a database. Each opens it, and closes it at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Puts entries into its log. Where there is no database, one is made.
    Put(Vec<(String, String)>),
    /// Writes what is in memory and logs into tables.
    Flush,
    /// Merges all tables.
    Compact,
    /// Makes a column family.
    CreateFamily(String),
    /// Drops a column family.
    DropFamily(String),
    /// Takes in a copy of a table that was made outside.
    Ingest(String),
    /// Takes in a table that was made outside, and its file with it.
    Move(String),
    /// Makes a checkpoint.
    Checkpoint(String),
    /// Removes the database.
    Destroy,
    /// Opens it for writing, and answers what it holds.
    Open,
    /// The same, and makes the directories that another database has claimed its own.
    Adopt,
    /// Opens it for reading, and answers what it holds.
    Look,
    /// Makes a table outside any database; the path is the file's.
    External(Vec<(String, String)>),
}
