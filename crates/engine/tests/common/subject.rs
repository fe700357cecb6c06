//! Random reads of a column family, which are compared with a model of it.
//!
//! The reads are gets of every kind, and iterators with random options and moves. They use existing
//! keys, keys near existing ones, and arbitrary keys. Every failure message includes the given
//! context.

#[path = "cursor.rs"]
mod cursor;
#[path = "walk.rs"]
mod walk;

use std::ops::Deref;

use fastrand::Rng;
use tailwater::{
    ColumnFamily, Db, PinnedValue, PrefixExtractor, ReadOptions, Result, Snapshot, ValueBuffer,
    options,
};
use tailwater_testkit::dump::Entry;
use tailwater_testkit::model::Family;

/// How many reads of each kind are performed on a column family.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Number of point lookups.
    pub(crate) gets: usize,
    /// Number of multi-gets.
    pub(crate) multi_gets: usize,
    /// Number of iterators, each with a series of random moves.
    pub(crate) walks: usize,
    /// Called before each step of an iterator. It must not change the results of reads.
    pub(crate) between: fn(&Db, &ColumnFamily, &mut Rng),
}

/// A column family with its expected contents.
pub(crate) struct Subject<'a> {
    db: &'a Db,
    family: &'a ColumnFamily,
    /// The snapshot to read at; `None` for the latest state.
    snapshot: Option<&'a Snapshot>,
    model: Family,
    extractor: Option<PrefixExtractor>,
    context: String,
}

/// Reads every column family of a database at random, and compares the results with a dump.
pub(crate) fn ask(db: &Db, dump: &[Entry], effort: Effort, rng: &mut Rng, context: &str) {
    ask_at(db, None, dump, effort, rng, context);
}

/// Like [`ask`]; reads at `snapshot` if one is given.
pub(crate) fn ask_at(
    db: &Db,
    snapshot: Option<&Snapshot>,
    dump: &[Entry],
    effort: Effort,
    rng: &mut Rng,
    context: &str,
) {
    let families = db.column_families();
    let subject = |family| Subject {
        db,
        family,
        snapshot,
        model: Family::new(family.name(), family.comparator().clone(), dump),
        extractor: extractor(family),
        context: format!("{context}, family '{}'", family.name()),
    };
    let subjects: Vec<_> = families.iter().map(subject).collect();
    for _ in 0..effort.multi_gets {
        check_multi_get_of(&subjects, rng);
    }
    for subject in &subjects {
        subject.check_gets(effort.gets, rng);
        subject.check_multi_gets(effort.multi_gets, rng);
        for _ in 0..effort.walks {
            walk::check(subject, effort.between, rng);
        }
    }
}

/// Checks a multi-get over several column families of a database.
fn check_multi_get_of(subjects: &[Subject<'_>], rng: &mut Rng) {
    let Some(first) = subjects.first() else { return };
    let options = first.random_read_options(rng);
    let keys: Vec<_> = (0..rng.usize(..60))
        .map(|_| rng.choice(subjects).map(|subject| (subject, subject.random_key(rng))))
        .map(|key| key.expect("a subject"))
        .collect();
    let sought: Vec<_> = keys.iter().map(|(subject, key)| (subject.family, key)).collect();
    let values = first.db.multi_get_cf_opt(&sought, &options);
    assert_eq!(values.len(), keys.len(), "{}", first.context);
    for ((subject, key), value) in keys.iter().zip(values) {
        let context = || format!("{}: multi_get_cf of '{}'", subject.context, key.escape_ascii());
        let value = value.unwrap_or_else(|error| panic!("{}: {error}", context()));
        assert_eq!(value.as_deref(), subject.model.get(key), "{}", context());
    }
}

/// Returns the prefix extractor that the column family uses now.
fn extractor(family: &ColumnFamily) -> Option<PrefixExtractor> {
    match family.options().prefix_extractor {
        options::PrefixExtractor::None => None,
        options::PrefixExtractor::Fixed(length) => Some(PrefixExtractor::Fixed(length)),
        options::PrefixExtractor::Capped(length) => Some(PrefixExtractor::Capped(length)),
        options::PrefixExtractor::Noop => Some(PrefixExtractor::Noop),
        ref other => panic!("unexpected prefix extractor {other:?}"),
    }
}

impl Subject<'_> {
    /// Returns an existing key, a key near one, or an arbitrary key.
    fn random_key(&self, rng: &mut Rng) -> Vec<u8> {
        let mut key = match self.model.entries.len() {
            0 => Vec::new(),
            count => self.model.entries[rng.usize(..count)].0.clone(),
        };
        match rng.u8(..8) {
            0 => key.truncate(rng.usize(..=key.len())),
            1 => key.push(rng.u8(..)),
            2 => key = (0..rng.usize(..20)).map(|_| rng.u8(..)).collect(),
            3 if !key.is_empty() => {
                let at = rng.usize(..key.len());
                key[at] = key[at].wrapping_add(1);
            }
            _ => {}
        }
        key
    }

    /// Returns random read options. The latest state may also be read through a new snapshot.
    fn random_read_options(&self, rng: &mut Rng) -> ReadOptions {
        let snapshot = self.snapshot.cloned();
        ReadOptions::new()
            .with_snapshot(snapshot.or_else(|| rng.bool().then(|| self.db.snapshot())))
            .with_verify_checksums(rng.bool())
            .with_fill_cache(rng.bool())
            .with_pin_data(rng.bool())
            .with_allow_unprepared_value(rng.bool())
            .with_auto_refresh_iterator_with_snapshot(rng.bool())
            .with_async_io(rng.bool())
            .with_optimize_multiget_for_io(rng.bool())
            .with_adaptive_readahead(rng.bool())
            .with_auto_readahead_size(rng.bool())
    }

    fn check_gets(&self, count: usize, rng: &mut Rng) {
        let mut buffer = Vec::new();
        for _ in 0..count {
            let key = self.random_key(rng);
            let expected = self.model.get(&key);
            let options = self.random_read_options(rng);
            let copied = self.db.get_cf_opt(self.family, &key, &options);
            let pinned = self.db.get_pinned_cf_opt(self.family, &key, &options);
            let reused = self.db.get_into_cf_opt(self.family, &key, &options, &mut buffer);
            let reused = reused.map(|found| found.then_some(buffer.as_slice()));
            let context = || format!("{}: get of '{}'", self.context, key.escape_ascii());
            let copied = copied.unwrap_or_else(|error| panic!("{}: {error}", context()));
            let pinned = pinned.unwrap_or_else(|error| panic!("{}: {error}", context()));
            let reused = reused.unwrap_or_else(|error| panic!("{}: {error}", context()));
            assert_eq!(copied.as_deref(), expected, "{}", context());
            assert_eq!(pinned.as_deref(), expected, "{}, pinned", context());
            assert_eq!(reused, expected, "{}, into a buffer", context());
        }
    }

    /// Checks that a multi-get passes the values of `keys` to a receiver, each once.
    fn check_received(
        &self,
        keys: &[&[u8]],
        options: &ReadOptions,
        values: &[Result<Option<PinnedValue>>],
    ) {
        let mut received: Vec<_> = keys.iter().map(|_| None).collect();
        self.db.batched_multi_get_with_cf_opt(self.family, keys, options, |at, value| {
            let earlier = received[at].replace(value);
            assert!(earlier.is_none(), "{}: key {at} was passed twice", self.context);
        });
        for (received, value) in received.into_iter().zip(values) {
            let received = received.expect("each key is passed").expect("a value");
            assert_eq!(Some(received.as_deref()), value.as_ref().ok().map(Option::as_deref));
        }
    }

    fn check_multi_gets(&self, count: usize, rng: &mut Rng) {
        for _ in 0..count {
            let keys: Vec<Vec<u8>> = (0..rng.usize(..60)).map(|_| self.random_key(rng)).collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let options = self.random_read_options(rng);
            let values = self.db.batched_multi_get_cf_opt(self.family, &keys, &options);
            assert_eq!(values.len(), keys.len(), "{}", self.context);
            self.check_received(&keys, &options, &values);
            let mut copies = ValueBuffer::new();
            self.db.multi_get_into_cf_opt(self.family, &keys, &options, &mut copies);
            assert_eq!(copies.len(), keys.len(), "{}", self.context);
            for (at, value) in values.iter().enumerate() {
                let copy =
                    copies.get(at).unwrap_or_else(|error| panic!("{}: {error}", self.context));
                let value = value.as_ref().ok().and_then(Option::as_deref);
                assert_eq!(copy, value, "{}, copied", self.context);
            }
            for (key, value) in keys.iter().zip(&values) {
                let context = || format!("{}: multi_get of '{}'", self.context, key.escape_ascii());
                let value = value.as_ref().unwrap_or_else(|error| panic!("{}: {error}", context()));
                let value = value.as_ref().map(Deref::deref);
                assert_eq!(value, self.model.get(key), "{}", context());
            }
        }
    }
}
