//! Collection of retired objects when their owner is dropped.

/// Collects retired objects when its owner is dropped, so that files without readers are closed
/// when the drop ends. It must be the owner's last field, because fields are dropped in order of
/// declaration.
#[derive(Debug)]
pub(crate) struct Closing;

impl Drop for Closing {
    /// Collects the retired objects, and those that they retire in turn.
    fn drop(&mut self) {
        while super::collect() > 0 {}
    }
}
