//! Random steps with several databases on one simulated disk, with crashes.

use std::collections::BTreeMap;

use tailwater_testkit::seed;

use crate::world::World;

/// Number of simulated disks, with several databases each, per round.
const WORLDS: usize = 60;
/// Number of steps on each disk.
const STEPS: usize = 60;
/// Events of which each must occur at least once in the test. Otherwise the random steps cover too
/// little.
const EVENTS: [&str; 15] = [
    "a checkpoint is made again",
    "a copy takes the place of a home",
    "a crash",
    "a database is destroyed",
    "a destruction is completed",
    "a destruction is refused",
    "a directory that is no home is not destroyed",
    "a directory that is not mounted is missed",
    "a look with other directories is refused",
    "a lost file is missed",
    "a new database is refused",
    "an opening succeeds",
    "directories are adopted",
    "other directories are refused",
    "other directories do no harm",
];

/// Tests that after every step each database that owns its directories has exactly its data, and
/// that no step changes a file that another database needs.
#[test]
fn no_database_harms_another() {
    let seed = seed::rng();
    let value = seed.value();
    let mut rng = seed.rng;
    println!("seed {value}");
    let mut tally: BTreeMap<&str, u64> = BTreeMap::new();
    for number in 0..WORLDS * seed::rounds() {
        let mut world = World::new(fastrand::Rng::with_seed(rng.u64(..)));
        for _ in 0..STEPS {
            let done = world.step().and_then(|()| world.look_at_all());
            if let Err(error) = done {
                let trace = world.trace.join("\n");
                panic!("{error}\nseed {value}, world {number}:\n{trace}");
            }
        }
        world.tally.iter().for_each(|(what, count)| *tally.entry(what).or_default() += count);
    }
    tally.iter().for_each(|(what, count)| println!("{count:>6} {what}"));
    let never = EVENTS.iter().find(|what| !tally.contains_key(*what));
    assert_eq!(never, None, "never happened with seed {value}");
}
