//! Builds a valid request body for every command. Other tests damage these bodies.

use iggy_binary_protocol::dispatch::{COMMAND_TABLE, CommandMeta};
use iggy_binary_protocol::primitives::permissions::WirePermissions;
use iggy_binary_protocol::requests::consumer_groups::{
    CreateConsumerGroupRequest, JoinConsumerGroupRequest,
};
use iggy_binary_protocol::requests::consumer_offsets::{
    DeleteConsumerOffsetRequest, GetConsumerOffsetRequest, StoreConsumerOffsetRequest,
};
use iggy_binary_protocol::requests::messages::{FlushUnsavedBufferRequest, PollMessagesRequest};
use iggy_binary_protocol::requests::partitions::CreatePartitionsRequest;
use iggy_binary_protocol::requests::personal_access_tokens::{
    CreatePersonalAccessTokenRequest, DeletePersonalAccessTokenRequest,
};
use iggy_binary_protocol::requests::segments::DeleteSegmentsRequest;
use iggy_binary_protocol::requests::streams::{
    CreateStreamRequest, GetStreamRequest, UpdateStreamRequest,
};
use iggy_binary_protocol::requests::system::{
    AttachConsumerSessionRequest, DescribeOptionsRequest, GetClientRequest, GetSnapshotRequest,
};
use iggy_binary_protocol::requests::topics::{
    CreateTopicRequest, GetTopicRequest, UpdateTopicRequest,
};
use iggy_binary_protocol::requests::users::{
    ChangePasswordRequest, CreateUserRequest, GetUserRequest, UpdatePermissionsRequest,
    UpdateUserRequest,
};
use iggy_binary_protocol::{
    AckLevel, WireConsumer, WireDecode, WireEncode, WireIdentifier, WireName, WireOptions,
    WirePollingStrategy, codes,
};

use crate::repeated::one_message;

/// Returns each command that a client may send after its login, with a valid body. Bodies refer to
/// the stream `s` and its topic `t`, and also to objects that may not exist.
pub(crate) fn of_every_command() -> Vec<(&'static CommandMeta, Vec<u8>)> {
    let other = |meta: &&CommandMeta| {
        !matches!(
            meta.code,
            codes::PING_CODE
                | codes::LOGIN_USER_CODE
                | codes::LOGOUT_USER_CODE
                | codes::LOGIN_REGISTER_CODE
                | codes::LOGIN_REGISTER_WITH_PAT_CODE
                | codes::LOGIN_WITH_PERSONAL_ACCESS_TOKEN_CODE
        )
    };
    COMMAND_TABLE.iter().filter(other).map(|meta| (meta, of(meta.code))).collect()
}

fn id(name: &str) -> WireIdentifier {
    WireIdentifier::named(name).expect("a name")
}

fn name(name: &str) -> WireName {
    WireName::new(name).expect("a name")
}

fn of(code: u32) -> Vec<u8> {
    let none = WireOptions::empty;
    let stream = || GetStreamRequest { stream_id: id("s") }.to_bytes();
    let topic = || GetTopicRequest { stream_id: id("s"), topic_id: id("t") }.to_bytes();
    let user = || GetUserRequest { user_id: id("nobody") }.to_bytes();
    let consumer = || WireConsumer::consumer(id("reader"));
    let group = || {
        let (stream_id, topic_id) = (id("s"), id("t"));
        JoinConsumerGroupRequest { stream_id, topic_id, group_id: id("g") }.to_bytes()
    };
    let partitions = || {
        let (stream_id, topic_id) = (id("s"), id("t"));
        CreatePartitionsRequest { stream_id, topic_id, partitions_count: 1 }.to_bytes()
    };
    let get_offset = || {
        let (stream_id, topic_id, partition_id) = (id("s"), id("t"), Some(0));
        GetConsumerOffsetRequest { consumer: consumer(), stream_id, topic_id, partition_id }
            .to_bytes()
    };
    let poll = || {
        PollMessagesRequest {
            consumer: consumer(),
            stream_id: id("s"),
            topic_id: id("t"),
            partition_id: Some(0),
            strategy: WirePollingStrategy::next(),
            count: 10,
            auto_commit: true,
        }
        .to_bytes()
    };
    let permissions = || {
        let mut bytes = [0; 11];
        bytes[9] = 1;
        Some(WirePermissions::decode(&bytes).expect("permissions").0)
    };
    let body = match code {
        codes::GET_SNAPSHOT_FILE_CODE => {
            GetSnapshotRequest { compression: 1, snapshot_types: vec![1] }.to_bytes()
        }
        codes::DESCRIBE_OPTIONS_CODE => DescribeOptionsRequest { scope: 1 }.to_bytes(),
        codes::GET_CLIENT_CODE => GetClientRequest { client_id: 1 }.to_bytes(),
        codes::ATTACH_CONSUMER_SESSION_CODE => {
            AttachConsumerSessionRequest { client_id: 1, session: 1, metadata_watermark: 1 }
                .to_bytes()
        }
        codes::GET_USER_CODE | codes::DELETE_USER_CODE => user(),
        codes::CREATE_USER_CODE => CreateUserRequest {
            username: name("nobody"),
            password: "password".to_owned(),
            status: 1,
            permissions: permissions(),
            options: none(),
        }
        .to_bytes(),
        codes::UPDATE_USER_CODE => UpdateUserRequest {
            user_id: id("nobody"),
            username: Some(name("nobody")),
            status: Some(2),
            options: none(),
        }
        .to_bytes(),
        codes::UPDATE_PERMISSIONS_CODE => {
            UpdatePermissionsRequest { user_id: id("nobody"), permissions: permissions() }
                .to_bytes()
        }
        codes::CHANGE_PASSWORD_CODE => ChangePasswordRequest {
            user_id: id("iggy"),
            current_password: "wrong".to_owned(),
            new_password: "another".to_owned(),
        }
        .to_bytes(),
        codes::CREATE_PERSONAL_ACCESS_TOKEN_CODE => {
            CreatePersonalAccessTokenRequest { name: name("token"), expiry: 1000 }.to_bytes()
        }
        codes::DELETE_PERSONAL_ACCESS_TOKEN_CODE => {
            DeletePersonalAccessTokenRequest { name: name("token") }.to_bytes()
        }
        codes::POLL_MESSAGES_CODE
        | codes::GET_POLL_ROUTING_CODE
        | codes::POLL_MESSAGES_ON_PRIMARY_CODE => poll(),
        codes::SEND_MESSAGES_CODE => one_message(b"payload").freeze(),
        codes::FLUSH_UNSAVED_BUFFER_CODE => FlushUnsavedBufferRequest {
            stream_id: id("s"),
            topic_id: id("t"),
            partition_id: 0,
            fsync: false,
        }
        .to_bytes(),
        codes::GET_CONSUMER_OFFSET_CODE | codes::GET_CONSUMER_OFFSET_ROUTING_CODE => get_offset(),
        codes::STORE_CONSUMER_OFFSET_CODE => StoreConsumerOffsetRequest {
            consumer: consumer(),
            stream_id: id("s"),
            topic_id: id("t"),
            partition_id: Some(0),
            offset: 0,
            ack: AckLevel::NoAck,
        }
        .to_bytes(),
        codes::DELETE_CONSUMER_OFFSET_CODE => DeleteConsumerOffsetRequest {
            consumer: consumer(),
            stream_id: id("s"),
            topic_id: id("t"),
            partition_id: Some(0),
            ack: AckLevel::NoAck,
        }
        .to_bytes(),
        codes::CREATE_STREAM_CODE => {
            CreateStreamRequest { name: name("s2"), options: none() }.to_bytes()
        }
        codes::UPDATE_STREAM_CODE => {
            UpdateStreamRequest { stream_id: id("s"), name: name("s"), options: none() }.to_bytes()
        }
        codes::GET_STREAM_CODE
        | codes::DELETE_STREAM_CODE
        | codes::PURGE_STREAM_CODE
        | codes::GET_TOPICS_CODE => stream(),
        codes::CREATE_TOPIC_CODE => CreateTopicRequest {
            stream_id: id("s"),
            partitions_count: 1,
            name: name("t2"),
            options: none(),
        }
        .to_bytes(),
        codes::UPDATE_TOPIC_CODE => UpdateTopicRequest {
            stream_id: id("s"),
            topic_id: id("t"),
            name: name("t"),
            options: none(),
        }
        .to_bytes(),
        codes::GET_TOPIC_CODE
        | codes::DELETE_TOPIC_CODE
        | codes::PURGE_TOPIC_CODE
        | codes::GET_CONSUMER_GROUPS_CODE => topic(),
        codes::CREATE_PARTITIONS_CODE | codes::DELETE_PARTITIONS_CODE => partitions(),
        codes::DELETE_SEGMENTS_CODE => DeleteSegmentsRequest {
            stream_id: id("s"),
            topic_id: id("t"),
            partition_id: 0,
            segments_count: 1,
        }
        .to_bytes(),
        codes::CREATE_CONSUMER_GROUP_CODE => {
            CreateConsumerGroupRequest { stream_id: id("s"), topic_id: id("t"), name: name("g") }
                .to_bytes()
        }
        codes::GET_CONSUMER_GROUP_CODE
        | codes::DELETE_CONSUMER_GROUP_CODE
        | codes::JOIN_CONSUMER_GROUP_CODE
        | codes::LEAVE_CONSUMER_GROUP_CODE
        | codes::SYNC_CONSUMER_GROUP_CODE => group(),
        // All other commands have empty bodies.
        _ => return Vec::new(),
    };
    body.to_vec()
}
