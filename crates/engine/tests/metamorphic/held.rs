//! An iterator that stays open and is moved at random while the database changes.

use fastrand::Rng;
use tailwater::{ColumnFamily, Db, DbIterator, ReadOptions, Snapshot};
use tailwater_format::Comparator;

use crate::change::Table;
use crate::run::must;

/// An iterator, and the entries that it must return.
pub(crate) struct HeldIterator {
    iterator: DbIterator,
    pub(crate) family: usize,
    order: Comparator,
    /// The lower bound, inclusive, and the upper bound, exclusive.
    bounds: [Option<Vec<u8>>; 2],
    /// The entries within the bounds, in the order of the column family.
    expected: Vec<(Vec<u8>, Vec<u8>)>,
    /// The index in `expected` of the iterator's current entry; `None` if the iterator is not
    /// valid.
    at: Option<usize>,
}

impl HeldIterator {
    /// Creates an iterator over a column family whose contents are `table`. Random choices decide
    /// whether the iterator has bounds, whether it reads at a snapshot, and, if so, whether it
    /// refreshes itself automatically.
    pub(crate) fn new(
        db: &Db,
        family: (usize, &ColumnFamily),
        (order, table): (&Comparator, &Table),
        rng: &mut Rng,
    ) -> Self {
        let mut bound = || {
            let key = table.keys().nth(rng.usize(..=table.len()))?.clone();
            (rng.u8(..3) == 0).then_some(key)
        };
        let bounds = [bound(), bound()];
        let mut options = ReadOptions::new()
            .with_snapshot(rng.bool().then(|| db.snapshot()))
            .with_auto_refresh_iterator_with_snapshot(rng.u8(..4) > 0)
            .with_async_io(rng.bool())
            .with_adaptive_readahead(rng.bool())
            .with_total_order_seek(true);
        options.iterate_lower_bound = bounds[0].clone();
        options.iterate_upper_bound = bounds[1].clone();
        let iterator = must(db.raw_iterator_cf_opt(family.1, &options), "making an iterator");
        let order = order.clone();
        let expected = Vec::new();
        let mut new = Self { iterator, family: family.0, order, bounds, expected, at: None };
        new.expect(table);
        new
    }

    fn expect(&mut self, table: &Table) {
        let [lower, upper] = &self.bounds;
        let within = |key: &[u8]| {
            lower.as_ref().is_none_or(|bound| self.order.compare(key, bound).is_ge())
                && upper.as_ref().is_none_or(|bound| self.order.compare(key, bound).is_lt())
        };
        let entries = table.iter().filter(|(key, _)| within(key));
        self.expected = entries.map(|(key, value)| (key.clone(), value.clone())).collect();
        self.expected.sort_by(|a, b| self.order.compare(&a.0, &b.0));
    }

    /// Refreshes the iterator to the latest state or to a snapshot. `table` is the contents at that
    /// state.
    pub(crate) fn refresh(&mut self, snapshot: Option<&Snapshot>, table: &Table) {
        let refreshed = match snapshot {
            Some(snapshot) => self.iterator.refresh_at(snapshot),
            None => self.iterator.refresh(),
        };
        must(refreshed, "refreshing an iterator");
        self.expect(table);
        self.at = None;
        self.check("a refresh");
    }

    /// Moves the iterator at random, and checks its entry after each move. Calls `between` before
    /// each move.
    pub(crate) fn walk(&mut self, rng: &mut Rng, mut between: impl FnMut(&mut Rng)) {
        let forward = rng.bool();
        for _ in 0..rng.usize(1..30) {
            between(rng);
            let count = self.expected.len();
            match rng.u8(..24) {
                0 => {
                    must(self.iterator.seek_to_first(), "seek_to_first");
                    self.at = (count > 0).then_some(0);
                }
                1 => {
                    must(self.iterator.seek_to_last(), "seek_to_last");
                    self.at = count.checked_sub(1);
                }
                2 => {
                    let key = self.any_key(rng);
                    must(self.iterator.seek(&key), "seek");
                    let below = |it: &(Vec<u8>, _)| self.order.compare(&it.0, &key).is_lt();
                    self.at = Some(self.expected.partition_point(below)).filter(|&at| at < count);
                }
                3 => {
                    let key = self.any_key(rng);
                    must(self.iterator.seek_for_prev(&key), "seek_for_prev");
                    let not_above = |it: &(Vec<u8>, _)| self.order.compare(&it.0, &key).is_le();
                    self.at = self.expected.partition_point(not_above).checked_sub(1);
                }
                move_by => {
                    if forward == (move_by > 6) {
                        must(self.iterator.next(), "next");
                        self.at = self.at.map(|at| at + 1).filter(|&at| at < count);
                    } else {
                        must(self.iterator.prev(), "previous");
                        self.at = self.at.and_then(|at| at.checked_sub(1));
                    }
                }
            }
            self.check("a move");
        }
    }

    fn any_key(&self, rng: &mut Rng) -> Vec<u8> {
        match self.expected.get(rng.usize(..=self.expected.len())) {
            Some((key, _)) if rng.bool() => key.clone(),
            Some((key, _)) => [key, &b"+"[..]].concat(),
            None => b"k".to_vec(),
        }
    }

    fn check(&self, what: &str) {
        let expected = self.at.and_then(|at| self.expected.get(at));
        let expected = expected.map(|(key, value)| (&key[..], &value[..]));
        assert_eq!(self.iterator.item(), expected, "a held iterator, after {what}");
    }

    /// Iterates over all entries, forward and then backward, and checks them.
    pub(crate) fn check_all(&mut self) {
        let iterator = &mut self.iterator;
        must(iterator.seek_to_first(), "an iterator that was held");
        for (key, value) in &self.expected {
            assert_eq!(iterator.item(), Some((&key[..], &value[..])), "a held iterator");
            must(iterator.next(), "an iterator that was held");
        }
        assert!(!iterator.valid(), "a held iterator has more than was written");
        must(iterator.seek_to_last(), "an iterator that was held");
        for (key, value) in self.expected.iter().rev() {
            assert_eq!(iterator.item(), Some((&key[..], &value[..])), "a held iterator, back");
            must(iterator.prev(), "an iterator that was held");
        }
        assert!(!iterator.valid(), "a held iterator has more than was written, going back");
        self.at = None;
    }
}
