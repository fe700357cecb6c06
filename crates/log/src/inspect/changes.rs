//! Tells errors that persist from those that a change by another process caused.

use crate::{Error, Result};

/// Maximum number of errors that do not occur twice in succession.
const PASSING_MAX: usize = 20;

/// The errors of successive looks at files that another process may change.
#[derive(Debug, Default)]
pub(super) struct Looks {
    last: Option<String>,
    /// Number of errors so far that did not occur twice in succession.
    passing: usize,
}

impl Looks {
    /// Called when a look failed. Returns `Ok` if the caller must list the files again and repeat
    /// the look.
    ///
    /// # Errors
    /// The same error, if the last look failed with it, too; busy, if there were too many different
    /// errors.
    pub(super) fn failed(&mut self, error: Error) -> Result<()> {
        let text = error.to_string();
        if self.last.as_ref() == Some(&text) {
            *self = Self::default();
            return Err(error);
        }
        if self.passing == PASSING_MAX {
            return Err(error.into_busy());
        }
        self.passing += 1;
        self.last = Some(text);
        Ok(())
    }
}

/// Calls `look` until it succeeds.
///
/// # Errors
/// The errors of [`Looks::failed`].
pub(super) fn settled<T>(mut look: impl FnMut() -> Result<T>) -> Result<T> {
    let mut looks = Looks::default();
    loop {
        match look() {
            Ok(found) => return Ok(found),
            Err(error) => looks.failed(error)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn an_error_counts_if_it_occurs_twice_in_succession() {
        let fail = |message: &str| Error::new(ErrorKind::Io, message);
        let mut errors = ["a", "b", "a", "b", "b", "c"].into_iter();
        let failed: Result<()> = settled(|| errors.next().map(fail).map_or(Ok(()), Err));
        assert_eq!(failed.expect_err("an error").message(), "b");
        assert_eq!(errors.next(), Some("c"));
        let mut errors = ["a", "b"].into_iter();
        settled(|| errors.next().map(fail).map_or(Ok(()), Err)).expect("success");
    }

    #[test]
    fn looks_that_always_fail_differently_end() {
        let mut count = 0;
        let failed: Result<()> = settled(|| {
            count += 1;
            Err(Error::new(ErrorKind::Corruption, format!("{count}")))
        });
        let error = failed.expect_err("an error");
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert_eq!(count, PASSING_MAX + 1);
    }
}
