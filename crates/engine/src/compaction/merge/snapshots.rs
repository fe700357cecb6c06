//! Stripes: ranges of sequence numbers that snapshots do not distinguish.

use tailwater_format::key::{MAX_SEQUENCE, Sequence};

/// The sequence numbers of snapshots, in order.
///
/// The snapshots divide the sequence numbers into stripes. Of two versions of a key in one stripe,
/// the older is visible neither to a snapshot nor to a read without a snapshot.
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
        let below = at.checked_sub(1).and_then(|below| self.sequences.get(below)).copied();
        Stripe {
            newest: self.sequences.get(at).copied().unwrap_or(MAX_SEQUENCE),
            // A snapshot at sequence number 0 sees no record, so it bounds no stripe.
            below: below.filter(|&snapshot| snapshot > 0),
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

    /// Returns the sequence number of the newest snapshot, or 0 if there is none. No snapshot sees
    /// records with higher sequence numbers.
    #[inline]
    pub(crate) fn latest(&self) -> Sequence {
        self.sequences.last().copied().unwrap_or(0)
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
        assert_eq!((snapshots.earliest(), snapshots.latest()), (10, 20));
        assert_eq!(
            (Snapshots::default().earliest(), Snapshots::default().latest()),
            (MAX_SEQUENCE, 0)
        );
    }
}
