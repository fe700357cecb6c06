//! The interface between scenarios and the engines that execute their steps.

use super::files::Files;
use super::step::{Contents, Work};

/// An operation on a database.
#[derive(Debug)]
pub struct Job<'a> {
    /// The database's path, in the form in which a user gives it: absolute, or relative to the
    /// working directory.
    pub path: &'a str,
    /// Options that override those in the database's OPTIONS file, as `name=value;name=value`.
    pub options: &'a str,
    /// The operation. The paths in it are in the same form as `path`.
    pub work: &'a Work,
}

/// The result of a job.
#[derive(Debug, Default)]
pub struct Answer {
    /// The contents of the database, if the operation opens the database and returns its contents.
    pub contents: Contents,
    /// The engine's warnings.
    pub warnings: String,
}

/// An engine, and the files that it works on.
pub trait Target {
    /// Returns the files on which the engine works.
    fn files(&mut self) -> &mut dyn Files;

    /// Opens a database, executes a job on it, and closes it.
    ///
    /// # Errors
    /// The engine's error.
    fn work(&mut self, job: &Job<'_>) -> Result<Answer, String>;

    /// Returns whether the engine is Tailwater. Unlike RocksDB, Tailwater claims directories, and
    /// leaves all files unchanged if it fails to open a database.
    fn is_tailwater(&self) -> bool {
        true
    }
}
