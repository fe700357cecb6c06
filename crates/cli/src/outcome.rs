//! The result of a run, and its exit code.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// The outcome of a run that completed, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// All is well: 0.
    Well,
    /// All is well, except for a last record that was truncated by a crash: 3.
    TornTail,
    /// Something requires an unsupported feature and was not verified: 4.
    Unsupported,
    /// Something looks damaged, but another process may be writing it: 5.
    BeingWritten,
    /// Something is damaged or missing: 1.
    Damage,
}

impl Outcome {
    /// Returns the worse of two outcomes.
    pub(crate) fn and(self, other: Self) -> Self {
        self.max(other)
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Well => Self::SUCCESS,
            Outcome::TornTail => Self::from(3),
            Outcome::Unsupported => Self::from(4),
            Outcome::BeingWritten => Self::from(5),
            Outcome::Damage => Self::from(1),
        }
    }
}

/// The reason why a run did not complete.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An invalid request: 2.
    Usage(String),
    /// An error from the engine: 1.
    Engine(tailwater::Error),
    /// An error from the message log: 1.
    Log(tailwater_log::Error),
    /// Something does not exist: 1.
    NotFound(String),
    /// A file could not be loaded completely: 1.
    Input(String),
    /// An obstacle that the user can remove: 1.
    Refused(String),
    /// The reader of the output is gone: 0.
    Closed,
    /// The output could not be written: 1.
    Output(io::Error),
}

/// The result of a step.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Closed => ExitCode::SUCCESS,
            Self::Engine(_)
            | Self::Log(_)
            | Self::NotFound(_)
            | Self::Input(_)
            | Self::Refused(_)
            | Self::Output(_) => Outcome::Damage.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message)
            | Self::NotFound(message)
            | Self::Input(message)
            | Self::Refused(message) => f.write_str(message),
            Self::Engine(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
            Self::Closed => f.write_str("standard output was closed"),
            Self::Output(error) => write!(f, "cannot write the output: {error}"),
        }
    }
}

impl From<tailwater::Error> for Failure {
    fn from(error: tailwater::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<tailwater_log::Error> for Failure {
    fn from(error: tailwater_log::Error) -> Self {
        Self::Log(error)
    }
}

impl From<tailwater_io::Error> for Failure {
    fn from(error: tailwater_io::Error) -> Self {
        Self::Engine(error.into())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Output(error),
        }
    }
}
