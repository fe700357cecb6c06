//! Collection of retired objects when their owner is dropped.

/// Closes files without readers when the last handle to their owner is dropped. It must be
/// the last field, so that it is dropped after the others.
#[derive(Debug)]
pub(crate) struct Closing;

impl Drop for Closing {
    /// Collects the retired objects, and those that they retire in turn.
    fn drop(&mut self) {
        while super::collect() > 0 {}
    }
}
