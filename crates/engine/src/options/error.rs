//! Why options are not accepted.

use std::borrow::Cow;
use std::fmt;

use tailwater_format::options_text::{Place, TextError};

/// Why an option is not accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    /// The option's name; of a part of one, both with a dot between them. Empty where the text is
    /// none.
    pub option: String,
    /// The line of the OPTIONS file, from 1, if that is where the option stands.
    pub line: Option<u32>,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with an option.
#[derive(Debug, Clone, PartialEq)]
pub enum Problem {
    /// It is another group's: "the database's".
    Elsewhere(&'static str),
    /// There is none of that name.
    Unknown {
        /// The known name that looks most like it.
        nearest: Option<&'static str>,
    },
    /// The value is none of the option's type.
    Malformed {
        /// The value, as it was given.
        value: String,
        /// What values the option takes.
        expected: Cow<'static, str>,
    },
    /// The value switches on something that there is not.
    Refused {
        /// The value, as it was given.
        value: String,
        /// Why there is no such thing.
        why: Cow<'static, str>,
    },
    /// The value does not go together with others, or is out of its range.
    Invalid {
        /// The value.
        value: String,
        /// What it must be, or what it contradicts.
        why: Cow<'static, str>,
    },
    /// The option cannot be changed while the database is open.
    Fixed,
    /// The text is no option string, or no OPTIONS file.
    Text(TextError),
}

/// The answer of whatever takes options.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    #[cold]
    pub(super) fn new(option: impl Into<String>, problem: Problem) -> Self {
        Self { option: option.into(), line: None, problem }
    }

    /// A value that is none of its option's type; the option is named later, see [`Error::within`].
    #[cold]
    pub(super) fn malformed(value: &str, expected: impl Into<Cow<'static, str>>) -> Self {
        Self::new("", Problem::Malformed { value: value.to_owned(), expected: expected.into() })
    }

    /// A value that switches on something that there is not; the option is named later.
    #[cold]
    pub(super) fn refused(value: &str, why: impl Into<Cow<'static, str>>) -> Self {
        Self::new("", Problem::Refused { value: value.to_owned(), why: why.into() })
    }

    /// The same error with `name` put before the option's name: it is a part of the option of that
    /// name.
    #[must_use]
    pub(super) fn within(mut self, name: &str) -> Self {
        self.option = match self.option.as_str() {
            "" => name.to_owned(),
            part => format!("{name}.{part}"),
        };
        self
    }

    /// The same error, of that line of the OPTIONS file.
    #[must_use]
    pub(super) fn at_line(mut self, line: u32) -> Self {
        self.line = Some(line);
        self
    }
}

impl From<TextError> for Error {
    fn from(error: TextError) -> Self {
        let line = match error.place {
            Place::Line(line) => Some(line),
            Place::Byte(_) | Place::Whole => None,
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
                write!(f, "option {option} cannot be changed while the database is open")
            }
            Problem::Text(_) => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// The name among `names` that looks most like `name`, if one is near enough to be a misspelling.
pub(super) fn nearest(
    name: &str,
    names: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    let distance_max = (name.len() / 3).max(1);
    let (distance, found) =
        names.map(|known| (edit_distance(name, known), known)).min_by_key(|found| found.0)?;
    (distance <= distance_max).then_some(found)
}

/// How many characters must be inserted, removed or replaced to make `b` of `a`.
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
