//! Moves an iterator over a database and a cursor over the model in the same way, at random. Checks
//! that both agree after each move.

use fastrand::Rng;
use tailwater::{ColumnFamily, Db, DbIterator, ReadOptions};

use super::Subject;
use super::cursor::{Cursor, PrefixMode};

/// Number of moves of an iterator.
const MOVES: usize = 60;

#[derive(Debug, Clone)]
enum Move {
    SeekToFirst,
    SeekToLast,
    Seek(Vec<u8>),
    SeekForPrev(Vec<u8>),
    Next(usize),
    Previous(usize),
}

/// Creates an iterator with random options over a column family, and moves it at random. After each
/// step, compares the iterator with a [`Cursor`] over the model. Calls `between` before each step.
pub(crate) fn check(
    subject: &Subject<'_>,
    between: fn(&Db, &ColumnFamily, &mut Rng),
    rng: &mut Rng,
) {
    let (options, mode) = random_options(subject, rng);
    let extractor = subject.extractor.as_ref();
    let mut cursor = Cursor::new(&subject.model, extractor, mode, &options);
    let mut iterator = subject
        .db
        .raw_iterator_cf_opt(subject.family, &options)
        .unwrap_or_else(|error| panic!("{}: {error}", subject.context));
    let mut moves = Vec::new();
    for number in 0..MOVES {
        let next = random_move(subject, rng, number == 0 || !cursor.is_binding());
        moves.push(next.clone());
        let context = || format!("{}, {options:?}, {mode:?}: {moves:?}", subject.context);
        let steps = match next {
            Move::Next(steps) | Move::Previous(steps) => steps,
            _ => 1,
        };
        for _ in 0..steps {
            between(subject.db, subject.family, rng);
            go(&mut iterator, &mut cursor, &next)
                .and_then(|()| iterator.prepare_value())
                .unwrap_or_else(|error| panic!("{}: {error}", context()));
            if !cursor.is_binding() {
                break;
            }
            assert_eq!(iterator.item(), cursor.entry(), "{}", context());
        }
    }
}

fn random_options(subject: &Subject<'_>, rng: &mut Rng) -> (ReadOptions, PrefixMode) {
    let mut bound =
        |one_in: u8| (rng.u8(..one_in) == 0).then(|| subject.random_key(&mut rng.fork()));
    let (iterate_lower_bound, iterate_upper_bound) = (bound(3), bound(3));
    let (total_order_seek, prefix_same_as_start) = (rng.bool(), rng.bool());
    let mode = match (&subject.extractor, prefix_same_as_start, total_order_seek) {
        (None, _, _) | (Some(_), false, true) => PrefixMode::TotalOrder,
        (Some(_), true, _) => PrefixMode::SamePrefix,
        (Some(_), false, false) => PrefixMode::Free,
    };
    let mut options = subject
        .random_read_options(rng)
        .with_readahead_size([0, 0, 1, 5_000, 1 << 20][rng.usize(..5)])
        .with_total_order_seek(total_order_seek)
        .with_prefix_same_as_start(prefix_same_as_start);
    options.iterate_lower_bound = iterate_lower_bound;
    options.iterate_upper_bound = iterate_upper_bound;
    (options, mode)
}

fn random_move(subject: &Subject<'_>, rng: &mut Rng, must_seek: bool) -> Move {
    let moves = if must_seek { 4 } else { 10 };
    match rng.u8(..moves) {
        0 if rng.bool() => Move::SeekToFirst,
        1 if rng.bool() => Move::SeekToLast,
        0 | 2 => Move::Seek(subject.random_key(rng)),
        1 | 3 => Move::SeekForPrev(subject.random_key(rng)),
        number if number % 2 == 0 => Move::Next(rng.usize(1..20)),
        _ => Move::Previous(rng.usize(1..20)),
    }
}

fn go(iterator: &mut DbIterator, cursor: &mut Cursor<'_>, by: &Move) -> tailwater::Result<()> {
    match by {
        Move::SeekToFirst => {
            cursor.seek_to_first();
            iterator.seek_to_first()
        }
        Move::SeekToLast => {
            cursor.seek_to_last();
            iterator.seek_to_last()
        }
        Move::Seek(target) => {
            cursor.seek(target);
            iterator.seek(target)
        }
        Move::SeekForPrev(target) => {
            cursor.seek_for_prev(target);
            iterator.seek_for_prev(target)
        }
        Move::Next(_) => {
            cursor.next();
            iterator.next()
        }
        Move::Previous(_) => {
            cursor.previous();
            iterator.prev()
        }
    }
}
