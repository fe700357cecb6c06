//! Stripes: ranges of sequence numbers that snapshots do not distinguish.

use tailwater_format::key::{MAX_SEQUENCE, Sequence};

/// The sequence numbers of snapshots, in order.
///
/// The snapshots divide the sequence numbers into stripes. Of two versions of a key in one stripe,
/// the older is visible neither to a snapshot nor to a read without a snapshot.
///
/// Sequence number 0 is a number like any other: ingested records have it if they hide nothing, and
/// a snapshot that is taken before the first write sees them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshots {
    sequences: Vec<Sequence>,
}

/// A range of sequence numbers of which each snapshot sees either all or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stripe {
    /// The highest sequence number of the stripe. It is the sequence number of the oldest snapshot
    /// that sees the stripe, or the maximum sequence number if no snapshot does.
    pub(crate) newest: Sequence,
    /// The snapshot right below the stripe, whose sequence number is not part of the stripe; `None`
    /// if there is none.
    pub(crate) below: Option<Sequence>,
}

impl Snapshots {
    /// Creates the stripes between the snapshots at these sequence numbers. The sequence numbers
    /// may be in any order.
    pub(crate) fn new(mut sequences: Vec<Sequence>) -> Self {
        sequences.sort_unstable();
        sequences.dedup();
        Self { sequences }
    }

    /// Returns the stripe of a sequence number: the interval between two neighbouring snapshots in
    /// which the number lies.
    #[inline]
    pub(crate) fn stripe(&self, sequence: Sequence) -> Stripe {
        let at = self.sequences.partition_point(|&snapshot| snapshot < sequence);
        Stripe {
            newest: self.sequences.get(at).copied().unwrap_or(MAX_SEQUENCE),
            below: at.checked_sub(1).and_then(|below| self.sequences.get(below)).copied(),
        }
    }

    /// Returns, for each stripe that has any of `sequences`, the newest of them. `sequences` must
    /// be given newest first.
    pub(crate) fn newest_of_stripes<'a>(
        &'a self,
        sequences: &'a [Sequence],
    ) -> impl Iterator<Item = Sequence> + 'a {
        let mut rest = sequences;
        std::iter::from_fn(move || {
            let &newest = rest.first()?;
            rest = match self.stripe(newest).below {
                Some(below) => &rest[rest.partition_point(|&sequence| sequence > below)..],
                None => &[],
            };
            Some(newest)
        })
    }

    /// Returns the sequence number of the oldest snapshot, or the maximum sequence number if there
    /// is none. All reads see records with this or a lower sequence number.
    #[inline]
    pub(crate) fn earliest(&self) -> Sequence {
        self.sequences.first().copied().unwrap_or(MAX_SEQUENCE)
    }

    /// Whether any snapshot sees records with this sequence number.
    #[inline]
    pub(crate) fn see(&self, sequence: Sequence) -> bool {
        self.sequences.last().is_some_and(|&latest| sequence <= latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_the_last_of_its_stripe() {
        let snapshots = Snapshots::new(vec![20, 10, 10]);
        let newest = |sequence| snapshots.stripe(sequence).newest;
        let below = |sequence| snapshots.stripe(sequence).below;
        assert_eq!([0, 10, 11, 20, 21].map(newest), [10, 10, 20, 20, MAX_SEQUENCE]);
        assert_eq!([0, 10, 11, 21].map(below), [None, None, Some(10), Some(20)]);
        let newest: Vec<_> = snapshots.newest_of_stripes(&[25, 21, 20, 11, 9, 3]).collect();
        assert_eq!(newest, [25, 20, 9]);
        assert_eq!(Snapshots::default().newest_of_stripes(&[3, 2]).collect::<Vec<_>>(), [3]);
        assert_eq!(snapshots.earliest(), 10);
        assert_eq!([10, 20, 21].map(|sequence| snapshots.see(sequence)), [true, true, false]);
        assert_eq!(Snapshots::default().earliest(), MAX_SEQUENCE);
        assert!(!Snapshots::default().see(0));
    }

    /// Regression test: a snapshot at sequence number 0 did not bound the stripe above it, so that
    /// the ingested records that it saw counted as overwritten.
    #[test]
    fn a_snapshot_at_sequence_number_0_bounds_a_stripe() {
        let snapshots = Snapshots::new(vec![0, 5]);
        let stripes = [0, 1, 6].map(|sequence| snapshots.stripe(sequence));
        let bounds = stripes.map(|stripe| (stripe.below, stripe.newest));
        assert_eq!(bounds, [(None, 0), (Some(0), 5), (Some(5), MAX_SEQUENCE)]);
        let newest: Vec<_> = snapshots.newest_of_stripes(&[3, 2, 0]).collect();
        assert_eq!(newest, [3, 0]);
        assert_eq!([0, 5, 6].map(|sequence| snapshots.see(sequence)), [true, true, false]);
    }
}
