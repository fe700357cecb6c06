//! Assigns the partitions of a topic to the members of a group.
//!
//! An assignment is balanced: the numbers of partitions of any two members differ by at most one.
//! Of all balanced assignments, the result is one that takes the fewest partitions from their
//! current owners.

use std::cmp::Reverse;

use crate::session::SessionId;

/// The state of a partition before the partitions are newly assigned to the members of a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    /// The session that owns the partition, if any. It may have left the group.
    pub(super) owner: Option<SessionId>,
    /// The session to which the partition is being handed over, if any. It may have left the group.
    pub(super) target: Option<SessionId>,
    /// Whether the owner is polling the partition, or has polled messages that it has not
    /// committed.
    pub(super) is_busy: bool,
}

/// Returns the new owner of each partition, in the order of `partitions`. Returns an empty list if
/// there are no members. `members` must be sorted.
///
/// A member that owns more partitions than it may have gives up some of them: first those that it
/// is already handing over, then those that are not busy ([`Held::is_busy`]), and then the last
/// ones of the rest. A partition in a handover goes to the target of that handover, unless the
/// target then has too many partitions.
pub(super) fn assign(partitions: &[Held], members: &[SessionId]) -> Vec<SessionId> {
    if members.is_empty() {
        return Vec::new();
    }
    let member = |session: Option<SessionId>| members.binary_search(&session?).ok();
    let mut quota_left = quotas(partitions, members);
    let mut chosen = vec![None; partitions.len()];
    let mut choose = |index: usize, member: Option<usize>| {
        if let Some(member) = member
            && chosen[index].is_none()
            && quota_left[member] > 0
        {
            quota_left[member] -= 1;
            chosen[index] = Some(member);
        }
    };
    let mut order: Vec<usize> = (0..partitions.len()).collect();
    order.sort_by_key(|index| (partitions[*index].target.is_some(), !partitions[*index].is_busy));
    for index in &order {
        choose(*index, member(partitions[*index].owner));
    }
    for index in &order {
        choose(*index, member(partitions[*index].target));
    }
    // The sum of all quotas is the number of partitions. Every partition that was not chosen so far
    // therefore goes to a member whose quota is not used up.
    let mut members_left =
        quota_left.iter().enumerate().flat_map(|(member, quota_left)| vec![member; *quota_left]);
    let chosen =
        chosen.into_iter().map(|member| member.or_else(|| members_left.next()).unwrap_or(0));
    chosen.map(|member| members[member]).collect()
}

/// Returns the number of partitions for each member. If the partitions cannot be divided equally,
/// members that already own the most partitions get one more, so that fewer partitions move.
fn quotas(partitions: &[Held], members: &[SessionId]) -> Vec<usize> {
    let mut owned = vec![0_usize; members.len()];
    let mut promised = vec![0_usize; members.len()];
    let member = |session: Option<SessionId>| members.binary_search(&session?).ok();
    for partition in partitions {
        if let Some(owner) = member(partition.owner) {
            owned[owner] += 1;
        }
        if let Some(target) = member(partition.target) {
            promised[target] += 1;
        }
    }
    let mut ranking: Vec<usize> = (0..members.len()).collect();
    ranking.sort_by_key(|member| (Reverse(owned[*member]), Reverse(promised[*member])));
    let mut quotas = vec![partitions.len() / members.len(); members.len()];
    for member in ranking.into_iter().take(partitions.len() % members.len()) {
        quotas[member] += 1;
    }
    quotas
}
