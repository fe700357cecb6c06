//! What snapshots tell apart.

use tailwater_format::key::{MAX_SEQUENCE, Sequence};

/// The sequence numbers that snapshots show, in order.
///
/// They cut the sequence numbers into stripes: of two versions of a key in one stripe no snapshot,
/// and no read without one, shows the older.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshots {
    sequences: Vec<Sequence>,
}

/// A range of sequence numbers that snapshots do not tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stripe {
    /// The last of it: the first snapshot that shows it, or the highest number there is.
    pub(crate) newest: Sequence,
    /// The snapshot right below it, if there is one.
    pub(crate) below: Option<Sequence>,
}

impl Snapshots {
    /// Of these sequence numbers, in any order.
    pub(crate) fn new(mut sequences: Vec<Sequence>) -> Self {
        sequences.sort_unstable();
        sequences.dedup();
        Self { sequences }
    }

    /// The stripe that a sequence number is in.
    #[inline]
    pub(crate) fn stripe(&self, sequence: Sequence) -> Stripe {
        let at = self.sequences.partition_point(|&snapshot| snapshot < sequence);
        let below = at.checked_sub(1).and_then(|below| self.sequences.get(below)).copied();
        Stripe {
            newest: self.sequences.get(at).copied().unwrap_or(MAX_SEQUENCE),
            // One that shows nothing sets nothing apart.
            below: below.filter(|&snapshot| snapshot > 0),
        }
    }

    /// Of sequence numbers, given the newest first, the first of each stripe.
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

    /// The first snapshot: everyone sees what is not above it. The highest number there is if there
    /// is no snapshot.
    #[inline]
    pub(crate) fn earliest(&self) -> Sequence {
        self.sequences.first().copied().unwrap_or(MAX_SEQUENCE)
    }

    /// The last snapshot: no snapshot shows what is above it.
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
