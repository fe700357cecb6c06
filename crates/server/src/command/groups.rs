//! Commands of consumer groups: reading, creating, deleting, and membership.

use iggy_binary_protocol::requests::consumer_groups::{
    CreateConsumerGroupRequest, DeleteConsumerGroupRequest, GetConsumerGroupRequest,
    GetConsumerGroupsRequest, JoinConsumerGroupRequest, LeaveConsumerGroupRequest,
    SyncConsumerGroupRequest,
};
use iggy_binary_protocol::responses::consumer_groups::{
    ConsumerGroupDetailsResponse, ConsumerGroupMemberResponse, ConsumerGroupResponse,
    GetConsumerGroupsResponse, SyncConsumerGroupResponse,
};
use iggy_binary_protocol::{WireDecode, WireEncode, WireIdentifier, WireName};
use tailwater_log::TopicId;

use super::{Outcome, Request, resolve};
use crate::groups::{MemberSummary, Summary};
use crate::state::State;
use crate::status::Status;
use crate::users::Action;

/// Returns a group with its members; an empty body if there is no such group.
pub(super) fn get_group(state: &State, request: &Request<'_>) -> Outcome {
    let get = GetConsumerGroupRequest::decode_from(request.body)?;
    let topic = resolve::topic(state, &get.stream_id, &get.topic_id)?;
    state.users.authorize(request.user, Action::GetGroup(topic))?;
    let group = state.groups.resolve(topic, &get.group_id);
    match group.and_then(|group| state.groups.get(topic, group)) {
        Some((summary, members)) => details(&summary, members),
        None => Ok(Vec::new()),
    }
}

/// Returns the groups of a topic.
pub(super) fn get_groups(state: &State, request: &Request<'_>) -> Outcome {
    let get = GetConsumerGroupsRequest::decode_from(request.body)?;
    let topic = resolve::topic(state, &get.stream_id, &get.topic_id)?;
    state.users.authorize(request.user, Action::GetGroups(topic))?;
    let groups: Result<_, _> = state.groups.list(topic).iter().map(group_response).collect();
    Ok(GetConsumerGroupsResponse { groups: groups? }.to_bytes().to_vec())
}

/// Creates a group, and returns it.
pub(super) fn create_group(state: &State, request: &Request<'_>) -> Outcome {
    let create = CreateConsumerGroupRequest::decode_from(request.body)?;
    let topic = resolve::topic(state, &create.stream_id, &create.topic_id)?;
    state.users.authorize(request.user, Action::CreateGroup(topic))?;
    let summary = state.groups.create(&state.log, topic, create.name.as_str())?;
    details(&summary, Vec::new())
}

/// Deletes a group with its offsets.
pub(super) fn delete_group(state: &State, request: &Request<'_>) -> Outcome {
    let delete = DeleteConsumerGroupRequest::decode_from(request.body)?;
    let topic = resolve::topic(state, &delete.stream_id, &delete.topic_id)?;
    state.users.authorize(request.user, Action::DeleteGroup(topic))?;
    state.groups.delete(&state.log, topic, group_id(state, topic, &delete.group_id)?)?;
    Ok(Vec::new())
}

/// Makes the session a member of the requested group.
pub(super) fn join_group(state: &State, request: &Request<'_>) -> Outcome {
    let join = JoinConsumerGroupRequest::decode_from(request.body)?;
    let topic = resolve::topic(state, &join.stream_id, &join.topic_id)?;
    state.users.authorize(request.user, Action::JoinGroup(topic))?;
    let group = group_id(state, topic, &join.group_id)?;
    state.groups.join(request.session.id, topic, group)?;
    Ok(Vec::new())
}

/// Ends the session's membership of a group.
pub(super) fn leave_group(state: &State, request: &Request<'_>) -> Outcome {
    let leave = LeaveConsumerGroupRequest::decode_from(request.body)?;
    let topic = resolve::topic(state, &leave.stream_id, &leave.topic_id)?;
    state.users.authorize(request.user, Action::LeaveGroup(topic))?;
    let group = group_id(state, topic, &leave.group_id)?;
    state.groups.leave(request.session.id, topic, group)?;
    Ok(Vec::new())
}

/// Returns the partitions that the session may poll as a member of a group. The reply has an empty
/// body if the session is not a member, or if the stream, topic or group does not exist.
pub(super) fn sync_group(state: &State, request: &Request<'_>) -> Outcome {
    let sync = SyncConsumerGroupRequest::decode_from(request.body)?;
    let Ok(topic) = resolve::topic(state, &sync.stream_id, &sync.topic_id) else {
        return Ok(Vec::new());
    };
    // No permission is checked, as in Iggy: the reply contains only partitions of the session
    // itself, and joining the group required a permission.
    let group = state.groups.resolve(topic, &sync.group_id);
    match group.and_then(|group| state.groups.synchronize(request.session.id, topic, group)) {
        Some((generation, partitions)) => {
            Ok(SyncConsumerGroupResponse { generation, partitions }.to_bytes().to_vec())
        }
        None => Ok(Vec::new()),
    }
}

/// Returns the id of a group that is identified by its id or name.
///
/// # Errors
/// Not found. The status does not depend on whether the request identified the group by id or by
/// name.
fn group_id(state: &State, topic: TopicId, group: &WireIdentifier) -> Result<u32, Status> {
    state.groups.resolve(topic, group).ok_or(Status::CONSUMER_GROUP_ID_NOT_FOUND)
}

fn group_response(summary: &Summary) -> Result<ConsumerGroupResponse, Status> {
    Ok(ConsumerGroupResponse {
        id: summary.id,
        partitions_count: summary.partitions,
        members_count: summary.members,
        name: WireName::new(summary.name.as_str())?,
    })
}

fn details(summary: &Summary, members: Vec<MemberSummary>) -> Outcome {
    let member = |MemberSummary { id, partitions }| ConsumerGroupMemberResponse {
        id,
        partitions_count: partitions.len() as u32,
        partitions,
    };
    let members = members.into_iter().map(member).collect();
    let response = ConsumerGroupDetailsResponse { group: group_response(summary)?, members };
    Ok(response.to_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use iggy_binary_protocol::WireDecode as _;
    use iggy_binary_protocol::responses::consumer_groups::ConsumerGroupDetailsResponse;

    use super::details;
    use crate::groups::{MemberSummary, Summary};

    #[test]
    fn details_decode_as_clients_decode_them() {
        let name = "workers".to_owned();
        let summary = Summary { id: 7, name, partitions: 3, members: 2 };
        let members = [(0, vec![0, 2]), (1, vec![1])];
        let members = members.map(|(id, partitions)| MemberSummary { id, partitions });
        let bytes = details(&summary, members.to_vec()).expect("details");
        let decoded = ConsumerGroupDetailsResponse::decode_from(&bytes).expect("a response");
        assert_eq!((decoded.group.id, decoded.group.partitions_count), (7, 3));
        assert_eq!((decoded.group.members_count, decoded.group.name.as_str()), (2, "workers"));
        let members = decoded.members.iter().map(|member| (member.id, member.partitions.clone()));
        assert_eq!(members.collect::<Vec<_>>(), [(0, vec![0, 2]), (1, vec![1])]);
    }
}
