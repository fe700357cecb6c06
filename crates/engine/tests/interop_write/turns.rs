//! Both engines write to one database in turns.

use crate::check;
use crate::laboratory::{self, CREATE, Laboratory, in_laboratory};
use crate::model::Model;
use crate::place::Place;
use crate::shape::Shape;
use crate::shapes::shapes;

/// Number of turns on one database. In a turn, one of the two engines uses the database.
const TURNS: usize = 5;
/// Number of random steps in a turn.
const STEPS: usize = 250;
/// Number of databases.
const DATABASES: usize = 8;

/// Which engine uses the database in a turn, and how the turn ends.
#[derive(Debug, Clone, Copy)]
struct Turn {
    is_first: bool,
    is_ours: bool,
    /// Whether the engine's process is killed at the end of the turn. Otherwise the database is
    /// closed.
    is_killed: bool,
}

#[test]
fn turns_on_one_database() {
    in_laboratory("turns on one database", |laboratory| {
        let mut shapes = shapes(&mut laboratory.rng.fork());
        laboratory.rng.shuffle(&mut shapes);
        for shape in shapes.into_iter().take(DATABASES) {
            let mut place = laboratory.next_place();
            let mut model = shape.model();
            let ours_begins = laboratory.rng.bool();
            let mut history = Vec::new();
            for number in 0..TURNS {
                let turn = Turn {
                    is_first: number == 0,
                    is_ours: (number % 2 == 0) == ours_begins,
                    is_killed: laboratory.rng.bool(),
                };
                history.push(turn);
                let context = format!("{}, {shape:?}, {history:?}", laboratory.context);
                let take = if turn.is_ours { our_turn } else { rocksdb_turn };
                place = take(laboratory, &shape, &place, &mut model, turn, &context);
                let options = shape.open_options(&place, &model, "");
                laboratory::ours_finds(&options, &place, &model, &context);
            }
            laboratory.clear();
        }
    });
}

/// Opens the database with Tailwater, works on it and closes it. Returns the directory with which
/// the test continues. If the process is to look killed, this directory is a copy of the database
/// that was made before the database was closed. Otherwise it is `place`.
fn our_turn(
    laboratory: &mut Laboratory,
    shape: &Shape,
    place: &Place,
    model: &mut Model,
    turn: Turn,
    context: &str,
) -> Place {
    let more = if turn.is_first { CREATE } else { "" };
    let db = laboratory::open_ours(shape, place, model, more, context);
    laboratory::ours_does(&db, model, &mut laboratory.rng, STEPS, context);
    check::holds(&db, &model.dump(), context);
    db.flush_wal(false).unwrap_or_else(|error| panic!("{context}: {error}"));
    let next = if turn.is_killed { laboratory.copy(place) } else { place.clone() };
    db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
    next
}

/// Opens the database with RocksDB, works on it and closes it. Returns the directory with which the
/// test continues. If the process is to look killed, this directory is a copy of the database that
/// was made before the database was closed. Otherwise it is `place`.
fn rocksdb_turn(
    laboratory: &mut Laboratory,
    shape: &Shape,
    place: &Place,
    model: &mut Model,
    turn: Turn,
    context: &str,
) -> Place {
    let mut script = shape.describe(place, model, "");
    script.line(&[if turn.is_first { &"open" } else { &"open-existing" }]);
    laboratory.rocksdb_finds(script, model, context);
    let steps = laboratory::rocksdb_steps(model, &mut laboratory.rng, STEPS);
    laboratory.rocksdb_finds(steps, model, context);
    let next = if turn.is_killed { laboratory.copy(place) } else { place.clone() };
    laboratory.rocksdb_closes(context);
    next
}
