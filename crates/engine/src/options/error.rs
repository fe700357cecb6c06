//! Errors about options.

use std::borrow::Cow;
use std::fmt;

use tailwater_format::options_text::{TextError, TextLocation};

/// An option that is not accepted, and the reason.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Error {
    /// The option's name, or `name.part` for a part of an option. Empty if the text as a whole is
    /// malformed.
    pub option: String,
    /// The option's line number in the OPTIONS file, counted from 1. `None` if the option was not
    /// read from an OPTIONS file.
    pub line: Option<u32>,
    /// The problem.
    pub problem: Problem,
}

/// The problem with an option.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Problem {
    /// The option belongs to another group of options. The field is the name of that group, such as
    /// "the database's".
    Elsewhere(&'static str),
    /// No option has this name.
    Unknown {
        /// The known name that is most similar, if the unknown one may be a misspelling of it.
        nearest: Option<&'static str>,
    },
    /// The value cannot be parsed as the option's type.
    Malformed {
        /// The value as given.
        value: String,
        /// The values that the option takes.
        expected: Cow<'static, str>,
    },
    /// The value enables a feature that is not supported.
    Refused {
        /// The value as given.
        value: String,
        /// The reason why the feature is not supported.
        why: Cow<'static, str>,
    },
    /// The value contradicts values of other options, or is out of range.
    Invalid {
        /// The value that was given to the option.
        value: String,
        /// The values that are accepted, or what the value contradicts.
        why: Cow<'static, str>,
    },
    /// The option cannot be changed while the database is open.
    Fixed,
    /// The text as a whole is not an option string, or not an OPTIONS file.
    Text(TextError),
}

/// The result of setting or checking options.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    #[cold]
    pub(super) fn new(option: impl Into<String>, problem: Problem) -> Self {
        Self { option: option.into(), line: None, problem }
    }

    /// Creates the error for a value that cannot be parsed; [`Error::within`] adds the option's
    /// name.
    #[cold]
    pub(super) fn malformed(value: &str, expected: impl Into<Cow<'static, str>>) -> Self {
        Self::new("", Problem::Malformed { value: value.to_owned(), expected: expected.into() })
    }

    /// Creates the error for a value that enables an unsupported feature; [`Error::within`] adds
    /// the option's name.
    #[cold]
    pub(super) fn refused(value: &str, why: impl Into<Cow<'static, str>>) -> Self {
        Self::new("", Problem::Refused { value: value.to_owned(), why: why.into() })
    }

    /// Prefixes the option's name with `name` and a dot: `name.option`. `name` is the option that
    /// contains this option.
    #[must_use]
    pub(super) fn within(mut self, name: &str) -> Self {
        self.option = match self.option.as_str() {
            "" => name.to_owned(),
            part => format!("{name}.{part}"),
        };
        self
    }

    /// Adds the number of the line that contains the error.
    #[must_use]
    pub(super) fn at_line(mut self, line: u32) -> Self {
        self.line = Some(line);
        self
    }
}

impl From<TextError> for Error {
    fn from(error: TextError) -> Self {
        let line = match error.place {
            TextLocation::Line(line) => Some(line),
            TextLocation::Byte(_) | TextLocation::Whole => None,
        };
        Self { option: String::new(), line, problem: Problem::Text(error) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let option = &self.option;
        if let Problem::Text(error) = &self.problem {
            return match option.as_str() {
                "" => write!(f, "{error}"),
                option => write!(f, "option {option}: {error}"),
            };
        }
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        match &self.problem {
            Problem::Unknown { nearest: Some(nearest) } => {
                write!(f, "unknown option {option}; is it {nearest}?")
            }
            Problem::Unknown { nearest: None } => write!(f, "unknown option {option}"),
            Problem::Malformed { value, expected } => {
                write!(f, "option {option}: '{value}' is not {expected}")
            }
            Problem::Refused { value, why } => {
                write!(f, "option {option}: '{value}' is not supported: {why}")
            }
            Problem::Invalid { value, why } => write!(f, "option {option}: '{value}': {why}"),
            Problem::Elsewhere(whose) => write!(f, "option {option} is {whose}"),
            Problem::Fixed => {
                write!(
                    f,
                    "option {option} cannot be changed while the database is open: it can be set \
                     when the database is opened"
                )
            }
            Problem::Text(_) => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// Returns the one of `names` that is most similar to `name`, if `name` may be a misspelling of it.
pub(super) fn nearest(
    name: &str,
    names: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    let distance_max = (name.len() / 3).max(1);
    let (distance, found) =
        names.map(|known| (edit_distance(name, known), known)).min_by_key(|found| found.0)?;
    (distance <= distance_max).then_some(found)
}

/// Returns the minimum number of bytes to insert, remove or replace to turn `a` into `b`.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (index, left) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, right) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}
