//! Compares the result of `assign` with all possible assignments of the partitions.

use tailwater_testkit::seed;

use crate::groups::assignment::{Held, assign};
use crate::session::SessionId;

fn sessions(count: usize) -> Vec<SessionId> {
    (0..count).map(|number| SessionId(number as u32 * 10)).collect()
}

fn held(owner: Option<u32>) -> Held {
    Held { owner: owner.map(SessionId), target: None, is_busy: false }
}

fn is_balanced(choice: &[SessionId], members: &[SessionId]) -> bool {
    let count = |member: &SessionId| choice.iter().filter(|chosen| *chosen == member).count();
    let counts: Vec<usize> = members.iter().map(count).collect();
    let (least, most) = (counts.iter().min(), counts.iter().max());
    least.zip(most).is_some_and(|(least, most)| most - least <= 1)
}

/// Returns the number of partitions that the assignment `choice` takes from their current owners.
/// An owner that is no longer a member does not count.
fn moves(partitions: &[Held], choice: &[SessionId], members: &[SessionId]) -> usize {
    let is_moved = |(held, to): &(&Held, &SessionId)| {
        held.owner.is_some_and(|owner| members.contains(&owner) && owner != **to)
    };
    partitions.iter().zip(choice).filter(is_moved).count()
}

/// Returns the minimum of [`moves`] over all balanced assignments.
fn fewest_moves(partitions: &[Held], members: &[SessionId]) -> Option<usize> {
    let choices = members.len().pow(partitions.len() as u32);
    let choices = (0..choices).map(|number| {
        let digit = |place| number / members.len().pow(place as u32) % members.len();
        (0..partitions.len()).map(|place| members[digit(place)]).collect::<Vec<_>>()
    });
    let balanced = choices.filter(|choice| is_balanced(choice, members));
    balanced.map(|choice| moves(partitions, &choice, members)).min()
}

#[test]
fn assignments_are_balanced_and_move_the_fewest_partitions() {
    let mut seed = seed::rng();
    for round in 0..400 * seed::rounds() {
        let members = sessions(seed.rng.usize(1..5));
        let session = |rng: &mut fastrand::Rng| {
            // Session 5 is not a member.
            rng.bool().then(|| SessionId(*rng.choice(&[0, 10, 20, 30, 5]).unwrap_or(&0)))
        };
        let partitions: Vec<Held> = (0..seed.rng.usize(0..6))
            .map(|_| {
                let owner = session(&mut seed.rng);
                let target = session(&mut seed.rng).filter(|target| Some(*target) != owner);
                Held { owner, target, is_busy: seed.rng.bool() }
            })
            .collect();
        let choice = assign(&partitions, &members);
        let context = format!(
            "TAILWATER_SEED={} round {round}: {partitions:?} {members:?} {choice:?}",
            seed.value()
        );
        assert_eq!(choice.len(), partitions.len(), "{context}");
        assert!(is_balanced(&choice, &members), "{context}");
        let fewest = fewest_moves(&partitions, &members);
        assert_eq!(Some(moves(&partitions, &choice, &members)), fewest, "{context}");
    }
}

#[test]
fn partitions_being_handed_over_move_first_then_idle_ones() {
    let members = sessions(2);
    let mut partitions = vec![held(Some(0)); 4];
    partitions[0].target = Some(SessionId(10));
    partitions[2].is_busy = true;
    let choice = assign(&partitions, &members);
    assert_eq!(choice, [10, 0, 0, 10].map(SessionId));
}

#[test]
fn no_partition_is_assigned_without_members() {
    assert_eq!(assign(&[held(None), held(Some(0))], &[]), []);
}
