//! Random writes of every kind, mixed with flushes and compactions, so that the records are spread
//! over tables, levels and the log.

use std::collections::BTreeSet;

use fastrand::Rng;
use tailwater_testkit::oracle::Script;

use crate::random::{KEYS, Operands, key, operand, value};

/// How the random writes to one column family are chosen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan<'a> {
    /// The name of the column family.
    pub(crate) family: &'a str,
    /// Whether the column family sorts its keys in reverse bytewise order.
    pub(crate) reverse: bool,
    /// Number of different keys to choose from.
    pub(crate) keys: u32,
    /// Whether there are merges, and whether their operands are numbers or bytes.
    pub(crate) operands: Operands,
    /// Number of writes per thousand that delete a range.
    pub(crate) ranges: u32,
    /// Number of writes per thousand that are followed by a flush.
    pub(crate) flushes: u32,
    /// Number of writes per thousand that are followed by a compaction.
    pub(crate) compactions: u32,
    /// Maximum length of a value, in bytes.
    pub(crate) longest: usize,
}

impl<'a> Plan<'a> {
    /// Creates a plan for a column family with this name and these options. The plan's values have
    /// at most 400 bytes. The plan has deletions, some flushes and compactions, but neither merges
    /// nor range deletions.
    pub(crate) fn new((family, options): (&'a str, &str)) -> Self {
        Self {
            family,
            reverse: options.contains("ReverseBytewise"),
            keys: KEYS,
            operands: Operands::None,
            ranges: 0,
            flushes: 4,
            compactions: 1,
            longest: 400,
        }
    }
}

/// Adds `count` random writes to a script. Each write is to the column family of a randomly chosen
/// plan.
pub(crate) fn write(script: &mut Script, rng: &mut Rng, plans: &[Plan<'_>], count: usize) {
    let mut once = Once { prefix: rng.u32(..), ..Once::default() };
    let mut in_batch = 0;
    for _ in 0..count {
        let plan = &plans[rng.usize(..plans.len())];
        if in_batch == 0 && rng.u8(..20) == 0 {
            script.line(&[&"begin"]);
            in_batch = rng.usize(1..30);
        }
        one(script, rng, plan, &mut once);
        if in_batch > 0 {
            in_batch -= 1;
            if in_batch == 0 {
                script.line(&[&"commit"]);
            }
            continue;
        }
        upkeep(script, rng, plan);
    }
    if in_batch > 0 {
        script.line(&[&"commit"]);
    }
    script.line(&[&"release"]);
}

/// Keys that are put exactly once, so that a single deletion may delete them. Some of them are
/// never deleted.
#[derive(Default)]
struct Once {
    /// Part of every key; it differs from call to call of `write`, so that no other call puts the
    /// same keys.
    prefix: u32,
    next: u32,
    there: BTreeSet<(String, u32)>,
}

impl Once {
    fn key(&self, number: u32) -> Vec<u8> {
        format!("single{:08x}{number:06}", self.prefix).into_bytes()
    }
}

fn one(script: &mut Script, rng: &mut Rng, plan: &Plan<'_>, once: &mut Once) {
    let family = plan.family;
    if rng.u32(..1000) < plan.ranges {
        let mut range = [key(rng, plan.keys), key(rng, plan.keys)];
        // Most range deletions cover a short range, so that some keys are not deleted.
        if rng.u8(..12) > 0 {
            range[1] = [&range[0][..], b"\x02"].concat();
        }
        range.sort();
        if plan.reverse {
            range.reverse();
        }
        script.delete_range(family, &range[0], &range[1]);
        return;
    }
    match rng.u8(..20) {
        0..3 => script.delete(family, &key(rng, plan.keys)),
        3..9 if plan.operands != Operands::None => {
            let operand = operand(rng, plan.operands);
            script.merge(family, &key(rng, plan.keys), &operand);
        }
        9 => {
            script.put(family, &once.key(once.next), &value(rng, plan.longest));
            once.there.insert((family.to_owned(), once.next));
            once.next += 1;
        }
        10 if rng.bool() => {
            let of_family = once.there.iter().find(|(owner, _)| owner == family).cloned();
            if let Some(found) = of_family {
                script.single_delete(family, &once.key(found.1));
                once.there.remove(&found);
            }
        }
        _ if plan.operands == Operands::Numbers => {
            let operand = operand(rng, plan.operands);
            script.put(family, &key(rng, plan.keys), &operand);
        }
        _ => script.put(family, &key(rng, plan.keys), &value(rng, plan.longest)),
    }
}

/// Sometimes adds a flush or a compaction to a script, and sometimes takes a snapshot, which keeps
/// old records, or releases the snapshots.
fn upkeep(script: &mut Script, rng: &mut Rng, plan: &Plan<'_>) {
    match rng.u16(..300) {
        0 => script.line(&[&"snapshot"]),
        1 if rng.bool() => script.line(&[&"release"]),
        _ => {}
    }
    let chance = rng.u32(..1000);
    if chance < plan.flushes {
        script.flush(plan.family);
    } else if chance < plan.flushes + plan.compactions {
        script.compact(plan.family);
    }
}
