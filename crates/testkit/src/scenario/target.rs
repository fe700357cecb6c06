//! The interface between scenarios and the engines that execute their steps.

use super::files::Files;
use super::step::{Contents, Work};

/// Work on a database.
#[derive(Debug)]
pub struct Job<'a> {
    /// The database's path, as a user would give it: relative to the working directory or not.
    pub path: &'a str,
    /// Options that override those of the database's OPTIONS file: `name=value;name=value`.
    pub options: &'a str,
    /// The operation, with paths in the same form as the database's.
    pub work: &'a Work,
}

/// The result of a job.
#[derive(Debug, Default)]
pub struct Answer {
    /// The contents of the database, if the work was to open or read it.
    pub contents: Contents,
    /// The engine's warnings.
    pub warnings: String,
}

/// An engine, and the files that it works on.
pub trait Target {
    /// Returns the files.
    fn files(&mut self) -> &mut dyn Files;

    /// Executes a job on a database and closes it.
    ///
    /// # Errors
    /// The engine's error.
    fn work(&mut self, job: &Job<'_>) -> Result<Answer, String>;

    /// Returns whether the engine is Tailwater, which claims directories and whose failed steps
    /// leave all files unchanged.
    fn is_tailwater(&self) -> bool {
        true
    }
}
