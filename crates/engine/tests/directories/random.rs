//! Random work, mishaps and crashes.

use tailwater_testkit::seed;

use crate::world::World;

/// How many worlds there are.
const WORLDS: usize = 60;
/// How many steps each goes through.
const STEPS: usize = 60;

/// After every step, each database whose directories are its own has exactly its data, and no file
/// has changed that another one needs.
#[test]
fn no_database_harms_another() {
    let seed = seed::rng();
    let value = seed.value();
    let mut rng = seed.rng;
    println!("seed {value}");
    for number in 0..WORLDS * seed::rounds() {
        let mut world = World::new(fastrand::Rng::with_seed(rng.u64(..)));
        for _ in 0..STEPS {
            let done = world.step().and_then(|()| world.look_at_all());
            if let Err(error) = done {
                let trace = world.trace.join("\n");
                panic!("seed {value}, world {number}:\n{trace}\n{error}");
            }
        }
    }
}
