//! The values of a batch that are in blob files.

use std::collections::VecDeque;

use tailwater_io::charge_reads;

use super::batch::Sought;
use crate::blob::PackedValue;
use crate::column_family::SuperVersion;
use crate::error::Result;
use crate::table::{ReadProfile, Sink};

/// Values of the next keys of a batch, read together from blob files. If there is not enough memory
/// for all of them, or they are in too many files, they are read in several parts. Each value is
/// decompressed when it is taken, so that no more than one uses more memory than in its file.
#[derive(Debug, Default)]
pub(super) struct Blobs {
    values: VecDeque<Result<PackedValue>>,
}

impl Blobs {
    /// If the first of `keys`, whose searches have ended, has its value in a blob file, reads this
    /// value and those of later keys, unless it was read before.
    pub(super) fn load<S: Sink>(
        &mut self,
        keys: &[Sought<'_, S>],
        source: &SuperVersion,
        profile: &ReadProfile,
    ) {
        let is_needed = keys.first().is_some_and(|first| first.blob().is_some());
        if is_needed && self.values.is_empty() {
            let _charged = charge_reads(profile.charged);
            self.values = source.read_blobs(keys.iter().filter_map(Sought::blob));
        }
    }

    /// Removes and returns the value of the first key whose value is in a blob file.
    pub(super) fn take(&mut self) -> Result<Vec<u8>> {
        match self.values.pop_front() {
            Some(value) => value.and_then(PackedValue::unpack),
            None => unreachable!("the value of the first key was read"),
        }
    }
}
