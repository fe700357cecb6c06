//! Collection of what was retired, when its owner is dropped.

/// Closes files that nobody reads any more when the last handle to its owner is dropped. It must be
/// the last field, so that it is dropped after the others.
#[derive(Debug)]
pub(crate) struct Closing;

impl Drop for Closing {
    /// Collects what was retired, and what that retires in turn.
    fn drop(&mut self) {
        while super::collect() > 0 {}
    }
}
