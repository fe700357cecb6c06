//! `scan`: keys and values of a range, in order.

use std::cmp::Ordering;

use serde_json::json;
use tailwater::{ColumnFamily, DbIterator, SkippedDamage, SkippedPart};
use tailwater_format::Comparator;

use super::key_bytes;
use crate::arguments::ScanArguments;
use crate::database::{Database, read_once, report_skipped};
use crate::outcome::{Failure, Outcome, Result};
use crate::output::Output;
use crate::progress::Progress;

/// Number of entries between two updates of the progress.
const PROGRESS_STEP: u64 = 4096;

/// The range to scan.
struct Range {
    /// First key, inclusive.
    from: Option<Vec<u8>>,
    /// End of the range, exclusive.
    to: Option<Vec<u8>>,
    /// Common prefix of all keys in the range.
    prefix: Vec<u8>,
    reverse: bool,
}

pub(crate) fn run(arguments: &ScanArguments, output: &mut Output) -> Result<Outcome> {
    let key = |key: &String| key_bytes(key, &arguments.keys, &arguments.place.common);
    let range = Range {
        from: arguments.from.as_ref().map(key).transpose()?,
        to: arguments.to.as_ref().map(key).transpose()?,
        prefix: arguments.prefix.as_ref().map(key).transpose()?.unwrap_or_default(),
        reverse: arguments.reverse,
    };
    let database = Database::open(&arguments.place)?;
    let family = database.column_family(&arguments.column_family)?;
    let mut skipped = Skipped::default();
    let iterator = range.begin(&database, &family, &skipped.record);
    let scanned =
        iterator.and_then(|iterator| scan(arguments, &range, iterator, &mut skipped, output));
    let outcome = database.outcome.and(report_skipped(&family, skipped.parts(), output));
    let count = scanned?;
    if arguments.count && output.is_json() {
        output.json_document(&json!({ "column_family": family.name(), "count": count }))?;
    } else if arguments.count {
        output.line(count)?;
    }
    Ok(outcome)
}

/// What an iterator skipped.
#[derive(Default)]
struct Skipped {
    /// The record of the iterator.
    record: SkippedDamage,
    /// Parts that were taken from the record, and are to be reported.
    taken: Vec<SkippedPart>,
}

impl Skipped {
    /// Takes from the record what was skipped since the last call. Returns the keys that were
    /// skipped only because their operands cannot be merged.
    fn unmerged_keys(&mut self) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        for part in self.record.take() {
            match part.unmerged_key() {
                Some(key) => keys.push(key.to_vec()),
                None => self.taken.push(part),
            }
        }
        keys
    }

    /// Returns all parts that are to be reported.
    fn parts(self) -> impl Iterator<Item = SkippedPart> {
        self.taken.into_iter().chain(self.record.take())
    }
}

/// Prints the entries of a range, unless only their number is wanted. Returns their number.
/// `iterator` is at the first of them. If no values are wanted, the keys whose operands cannot be
/// merged are printed or counted, too, and are not left in `skipped`.
fn scan(
    arguments: &ScanArguments,
    range: &Range,
    mut iterator: DbIterator,
    skipped: &mut Skipped,
    output: &mut Output,
) -> Result<u64> {
    let limit = arguments.limit.unwrap_or(u64::MAX);
    let needs_values = !arguments.keys_only && !arguments.count;
    let progress = Progress::counting("entries");
    let mut count = 0;
    let mut show = |key: &[u8], value: &[u8]| {
        if !key.starts_with(&range.prefix) || count == limit {
            return Ok(false);
        }
        count += 1;
        if count % PROGRESS_STEP == 0 {
            progress.add(PROGRESS_STEP);
        }
        if !arguments.count {
            print(arguments, output, key, value)?;
        }
        Ok::<bool, Failure>(true)
    };
    loop {
        if !needs_values {
            for key in skipped.unmerged_keys() {
                show(&key, &[])?;
            }
        }
        let Some((key, value)) = iterator.item() else { break };
        if !show(key, value)? {
            break;
        }
        if range.reverse {
            iterator.prev()?
        } else {
            iterator.next()?
        };
    }
    Ok(count)
}

fn print(arguments: &ScanArguments, output: &mut Output, key: &[u8], value: &[u8]) -> Result<()> {
    let key = output.bytes(key);
    match (output.is_json(), arguments.keys_only) {
        (true, true) => output.json_line(&json!({ "key": key })),
        (true, false) => output.json_line(&json!({ "key": key, "value": output.bytes(value) })),
        (false, true) => output.line(key),
        (false, false) => output.line(format_args!("{key}\t{}", output.bytes(value))),
    }
}

impl Range {
    /// Returns an iterator at the first entry of the range in the direction of the scan.
    fn begin(
        &self,
        database: &Database,
        family: &ColumnFamily,
        skipped: &SkippedDamage,
    ) -> Result<DbIterator> {
        let comparator = family.comparator();
        let is_reversed = matches!(comparator, Comparator::ReverseBytewise);
        // Under the bytewise comparator, the keys with a prefix range from the prefix, inclusive,
        // to the prefix's successor, exclusive. Under the reverse bytewise comparator, they range
        // from the successor, exclusive, to the prefix, inclusive.
        let successor = successor(&self.prefix);
        let prefix = Some(self.prefix.clone()).filter(|prefix| !prefix.is_empty());
        let (first, end) =
            if is_reversed { (successor, None) } else { (prefix.clone(), successor) };
        let mut options = read_once(&database.db).with_skipped_damage(skipped.clone());
        options.iterate_lower_bound =
            outermost(comparator, Ordering::Greater, [&self.from, &first]);
        options.iterate_upper_bound = outermost(comparator, Ordering::Less, [&self.to, &end]);
        let mut iterator = database.db.raw_iterator_cf_opt(family, &options)?;
        match (self.reverse, is_reversed, &prefix) {
            (true, true, Some(prefix)) => iterator.seek_for_prev(prefix)?,
            (true, ..) => iterator.seek_to_last()?,
            (false, ..) => iterator.seek_to_first()?,
        }
        // Under the reverse comparator, the scan begins at the successor of the prefix: the
        // smallest key, in byte order, that is greater than all keys with the prefix. The successor
        // itself does not have the prefix. An iterator's lower bound is inclusive, so a forward
        // scan must skip the successor.
        let on_successor = iterator.item().is_some_and(|(key, _)| Some(key) == first.as_deref());
        if is_reversed && !self.reverse && on_successor {
            iterator.next()?;
        }
        Ok(iterator)
    }
}

/// Returns the stricter of two bounds. `wanted` is how the stricter bound compares with the other:
/// greater for lower bounds, less for upper bounds. `None` means no bound.
fn outermost(
    comparator: &Comparator,
    wanted: Ordering,
    keys: [&Option<Vec<u8>>; 2],
) -> Option<Vec<u8>> {
    match keys {
        [Some(a), Some(b)] => Some(if comparator.compare(a, b) == wanted { a } else { b }.clone()),
        [a, b] => a.as_ref().or(b.as_ref()).cloned(),
    }
}

/// Returns the smallest key, in bytewise order, that is greater than all keys with a prefix; `None`
/// if no such key exists.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let at = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut successor = prefix[..=at].to_vec();
    successor[at] += 1;
    Some(successor)
}
