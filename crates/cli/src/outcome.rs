//! The result of a run of the program, and its exit code.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// How a run of the program completed. The variants are ordered from best to worst; each has an
/// exit code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// No problem was found; exit code 0.
    #[default]
    Well,
    /// The only problem is that the last record of a log or MANIFEST was truncated by a crash; exit
    /// code 3.
    TornTail,
    /// A part of the database requires an unsupported feature and was not verified; exit code 4.
    Unsupported,
    /// A file looks damaged, but another process may be writing it; exit code 5.
    BeingWritten,
    /// Data is damaged or missing; exit code 1.
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

/// The reason why a run did not complete, with the exit code of the program.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An invalid command line; exit code 2.
    Usage(String),
    /// An error from the engine; exit code 1.
    Engine(tailwater::Error),
    /// An error from the message log; exit code 1.
    Log(tailwater_log::Error),
    /// Something that the command line names does not exist; exit code 1.
    NotFound(String),
    /// The input of `load` or `log import` could not be read completely; exit code 1.
    Input(String),
    /// The program refuses the request because of an obstacle that the user can remove; exit code
    /// 1.
    Refused(String),
    /// The reader of standard output has closed it; exit code 0.
    Closed,
    /// The output could not be written; exit code 1.
    Output(io::Error),
}

/// The result of a function whose [`Failure`] ends the run.
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
