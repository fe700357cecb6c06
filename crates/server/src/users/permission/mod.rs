//! Permissions of users: Iggy's three levels, and the permissions that each action requires.
//!
//! A permission is granted for one of three levels: globally, for a stream, or for a topic. A
//! permission to manage implies the permission to read, and a permission for a stream applies to
//! its topics:
//!
//! - To read a topic or to poll its messages, `manage_streams`, `read_streams`, `manage_topics` or
//!   `read_topics` is sufficient.
//! - To change a topic or to send messages to it, `manage_streams` or `manage_topics` is
//!   sufficient.
//!
//! A permission to poll or to send implies no other permission. Actions on a consumer group require
//! a permission to read the topic of the group.

use std::collections::BTreeMap;

use iggy_binary_protocol::primitives::permissions::{
    WireGlobalPermissions, WirePermissions, WireStreamPermissions, WireTopicPermissions,
};
use serde::{Deserialize, Serialize};
use tailwater_log::TopicId;

/// A requested action, with the id of the stream or topic that it concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    GetStats,
    GetClients,
    GetClient,
    GetSnapshot,
    GetStream(u32),
    GetStreams,
    CreateStream,
    UpdateStream(u32),
    DeleteStream(u32),
    PurgeStream(u32),
    GetTopic(TopicId),
    /// Get the topics of a stream.
    GetTopics(u32),
    /// Create a topic in a stream.
    CreateTopic(u32),
    UpdateTopic(TopicId),
    DeleteTopic(TopicId),
    PurgeTopic(TopicId),
    CreatePartitions(TopicId),
    DeletePartitions(TopicId),
    DeleteSegments(TopicId),
    PollMessages(TopicId),
    AppendMessages(TopicId),
    FlushMessages(TopicId),
    GetOffset(TopicId),
    StoreOffset(TopicId),
    DeleteOffset(TopicId),
    GetGroup(TopicId),
    GetGroups(TopicId),
    CreateGroup(TopicId),
    DeleteGroup(TopicId),
    JoinGroup(TopicId),
    LeaveGroup(TopicId),
    /// Get another user. A user may get its own description without a permission.
    GetUser,
    GetUsers,
    CreateUser,
    DeleteUser,
    UpdateUser,
    UpdatePermissions,
    /// Change the password of another user. A user may change its own password without a
    /// permission.
    ChangePassword,
}

/// Declares a struct with the permission flags of one level, and conversions from and to `$wire`,
/// the corresponding type of the protocol. The fields in the parentheses after `$wire` exist only
/// in `$wire`.
macro_rules! flags {
    (
        $(#[$attribute:meta])*
        $name:ident, $wire:ident($($field:ident: $type:ty),*) { $($flag:ident),* $(,)? }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub(super) struct $name {
            $(
                #[serde(skip_serializing_if = "std::ops::Not::not")]
                pub(super) $flag: bool,
            )*
        }

        impl $name {
            fn from_wire(wire: &$wire) -> Self {
                Self { $($flag: wire.$flag),* }
            }

            /// Returns the protocol's type, with these permissions, and with the given values in
            /// the fields that are not permissions.
            fn to_wire(self, $($field: $type),*) -> $wire {
                $wire { $($field,)* $($flag: self.$flag),* }
            }
        }

        impl From<bool> for $name {
            /// Returns all permissions that this type contains if `are_given` is true, and none
            /// otherwise.
            fn from(are_given: bool) -> Self {
                Self { $($flag: are_given),* }
            }
        }

        #[cfg(test)]
        impl $name {
            /// The name of each permission, with a value that has only that permission.
            pub(super) const EACH: &[(&str, Self)] =
                &[$((stringify!($flag), Self { $flag: true, ..Self::NONE })),*];

            const NONE: Self = Self { $($flag: false),* };

            /// Adds the permissions in `other`.
            fn add(&mut self, other: Self) {
                $(self.$flag |= other.$flag;)*
            }

            /// Returns whether all permissions in `other` are in `self`.
            fn has(self, other: Self) -> bool {
                true $(&& (self.$flag || !other.$flag))*
            }
        }
    };
}

flags! {
    /// Global permissions, which apply to all objects.
    GlobalFlags, WireGlobalPermissions() {
        manage_servers, read_servers, manage_users, read_users, manage_streams, read_streams,
        manage_topics, read_topics, poll_messages, send_messages,
    }
}

flags! {
    /// Permissions on one stream and all its topics.
    StreamFlags, WireStreamPermissions(stream_id: u32, topics: Vec<WireTopicPermissions>) {
        manage_stream, read_stream, manage_topics, read_topics, poll_messages, send_messages,
    }
}

flags! {
    /// Permissions on one topic.
    TopicFlags, WireTopicPermissions(topic_id: u32) {
        manage_topic, read_topic, poll_messages, send_messages,
    }
}

/// Permissions on one stream, and on single topics of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StreamPermissions {
    /// Permissions on the stream and all its topics.
    pub(super) flags: StreamFlags,
    /// Permissions on single topics, by the id of the topic.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) topics: BTreeMap<u32, TopicFlags>,
}

/// All permissions of a user, of all three levels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Permissions {
    pub(super) global: GlobalFlags,
    /// Permissions on single streams, by the id of the stream.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) streams: BTreeMap<u32, StreamPermissions>,
}

impl Permissions {
    /// Returns the permissions of the root user.
    pub(super) fn root() -> Self {
        Self { global: GlobalFlags::from(true), streams: BTreeMap::new() }
    }

    /// Returns whether the permissions allow an action.
    pub(super) fn allow(&self, action: Action) -> bool {
        let global = &self.global;
        match action {
            Action::GetStats | Action::GetClients | Action::GetClient | Action::GetSnapshot => {
                global.manage_servers || global.read_servers
            }
            Action::GetUser | Action::GetUsers => global.manage_users || global.read_users,
            Action::CreateUser
            | Action::DeleteUser
            | Action::UpdateUser
            | Action::UpdatePermissions
            | Action::ChangePassword => global.manage_users,
            Action::GetStreams => global.manage_streams || global.read_streams,
            Action::CreateStream => global.manage_streams,
            Action::GetStream(stream) => {
                let own = self.on_stream(stream);
                global.manage_streams || global.read_streams || own.manage_stream || own.read_stream
            }
            Action::UpdateStream(stream)
            | Action::DeleteStream(stream)
            | Action::PurgeStream(stream) => {
                global.manage_streams || self.on_stream(stream).manage_stream
            }
            Action::GetTopics(stream) => self.read_topics_of(stream),
            Action::CreateTopic(stream) => self.manage_topics_of(stream),
            Action::GetTopic(topic)
            | Action::GetGroup(topic)
            | Action::GetGroups(topic)
            | Action::CreateGroup(topic)
            | Action::DeleteGroup(topic)
            | Action::JoinGroup(topic)
            | Action::LeaveGroup(topic) => {
                let own = self.on_topic(topic);
                self.read_topics_of(topic.stream) || own.manage_topic || own.read_topic
            }
            Action::UpdateTopic(topic)
            | Action::DeleteTopic(topic)
            | Action::PurgeTopic(topic)
            | Action::CreatePartitions(topic)
            | Action::DeletePartitions(topic)
            | Action::DeleteSegments(topic) => {
                self.manage_topics_of(topic.stream) || self.on_topic(topic).manage_topic
            }
            Action::PollMessages(topic)
            | Action::GetOffset(topic)
            | Action::StoreOffset(topic)
            | Action::DeleteOffset(topic) => self.allow_polling(topic),
            Action::AppendMessages(topic) | Action::FlushMessages(topic) => {
                self.allow_sending(topic)
            }
        }
    }

    /// Removes the permissions on a stream and its topics. Returns whether there were any to
    /// remove.
    pub(super) fn forget_stream(&mut self, stream: u32) -> bool {
        self.streams.remove(&stream).is_some()
    }

    /// Removes the permissions on a topic. Returns whether there were any to remove.
    pub(super) fn forget_topic(&mut self, topic: TopicId) -> bool {
        let stream = self.streams.get_mut(&topic.stream);
        stream.is_some_and(|stream| stream.topics.remove(&topic.topic).is_some())
    }

    fn allow_polling(&self, topic: TopicId) -> bool {
        let own = self.on_topic(topic);
        self.global.poll_messages
            || self.read_topics_of(topic.stream)
            || self.on_stream(topic.stream).poll_messages
            || own.manage_topic
            || own.read_topic
            || own.poll_messages
    }

    fn allow_sending(&self, topic: TopicId) -> bool {
        let own = self.on_topic(topic);
        self.global.send_messages
            || self.manage_topics_of(topic.stream)
            || self.on_stream(topic.stream).send_messages
            || own.manage_topic
            || own.send_messages
    }

    fn read_topics_of(&self, stream: u32) -> bool {
        let own = self.on_stream(stream);
        self.manage_topics_of(stream)
            || self.global.read_streams
            || self.global.read_topics
            || own.read_stream
            || own.read_topics
    }

    fn manage_topics_of(&self, stream: u32) -> bool {
        let own = self.on_stream(stream);
        self.global.manage_streams
            || self.global.manage_topics
            || own.manage_stream
            || own.manage_topics
    }

    fn on_stream(&self, stream: u32) -> StreamFlags {
        self.streams.get(&stream).map_or_else(StreamFlags::default, |stream| stream.flags)
    }

    fn on_topic(&self, topic: TopicId) -> TopicFlags {
        let stream = self.streams.get(&topic.stream);
        stream.and_then(|stream| stream.topics.get(&topic.topic)).copied().unwrap_or_default()
    }
}

impl From<&WirePermissions> for Permissions {
    /// Converts permissions from a request. If the request contains a stream or topic twice, its
    /// last entry applies.
    fn from(wire: &WirePermissions) -> Self {
        let topic = |wire: &WireTopicPermissions| (wire.topic_id, TopicFlags::from_wire(wire));
        let stream = |wire: &WireStreamPermissions| {
            let topics = wire.topics.iter().map(topic).collect();
            (wire.stream_id, StreamPermissions { flags: StreamFlags::from_wire(wire), topics })
        };
        Self {
            global: GlobalFlags::from_wire(&wire.global),
            streams: wire.streams.iter().map(stream).collect(),
        }
    }
}

impl From<&Permissions> for WirePermissions {
    fn from(permissions: &Permissions) -> Self {
        let topic = |(id, flags): (&u32, &TopicFlags)| flags.to_wire(*id);
        let stream = |(id, stream): (&u32, &StreamPermissions)| {
            stream.flags.to_wire(*id, stream.topics.iter().map(topic).collect())
        };
        Self {
            global: permissions.global.to_wire(),
            streams: permissions.streams.iter().map(stream).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
