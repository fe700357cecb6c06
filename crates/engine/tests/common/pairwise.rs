//! Combinations of values of several factors, chosen so that every two values of different factors
//! occur together in some combination.

use std::collections::BTreeSet;

use fastrand::Rng;

/// Number of random candidates from which each next combination is chosen.
const CANDIDATES: usize = 40;

/// Returns combinations that together contain every pair of values of different factors. A
/// combination has, for every factor, the index of a value. `sizes` has the number of values of
/// each factor.
pub(crate) fn combinations(sizes: &[usize], rng: &mut Rng) -> Vec<Vec<usize>> {
    let mut missing = BTreeSet::new();
    for (a, &size_a) in sizes.iter().enumerate() {
        for (b, &size_b) in sizes.iter().enumerate().skip(a + 1) {
            missing.extend((0..size_a).flat_map(|x| (0..size_b).map(move |y| (a, x, b, y))));
        }
    }
    let mut combinations = Vec::new();
    while let Some(&(a, x, b, y)) = missing.first() {
        let candidates = (0..CANDIDATES).map(|_| {
            let mut choice: Vec<usize> = sizes.iter().map(|&size| rng.usize(..size)).collect();
            // Each candidate contains a pair of values that has not yet occurred. So the candidate
            // that becomes the next combination adds at least one new pair.
            (choice[a], choice[b]) = (x, y);
            choice
        });
        let best = candidates
            .max_by_key(|choice| pairs(choice).filter(|pair| missing.contains(pair)).count())
            .expect("candidates");
        for pair in pairs(&best) {
            missing.remove(&pair);
        }
        combinations.push(best);
    }
    combinations
}

fn pairs(choice: &[usize]) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    choice.iter().enumerate().flat_map(move |(a, &x)| {
        choice.iter().enumerate().skip(a + 1).map(move |(b, &y)| (a, x, b, y))
    })
}

#[test]
fn every_pair_of_values_occurs() {
    let sizes = [3, 2, 4];
    let combinations = combinations(&sizes, &mut Rng::with_seed(7));
    let met: BTreeSet<_> = combinations.iter().flat_map(|choice| pairs(choice)).collect();
    assert_eq!(met.len(), 3 * 2 + 3 * 4 + 2 * 4);
    assert!(combinations.len() < 24, "no fewer than the full product");
}
