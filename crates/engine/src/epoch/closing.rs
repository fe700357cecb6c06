//! A value that drops retired objects when its owner is dropped.

/// When its owner is dropped, drops the retired objects that no reader can see any more. So files
/// without readers are closed when the drop of the owner ends. This value must be the owner's last
/// field, because fields are dropped in order of declaration.
#[derive(Debug)]
pub(crate) struct Closing;

impl Drop for Closing {
    /// Drops the retired objects that no reader can see any more. Repeats this, since the drop of
    /// an object may retire further objects.
    fn drop(&mut self) {
        while super::collect() > 0 {}
    }
}
