//! Options of topics: the settings that clients send, and their translation to the log's options.
//!
//! The protocol transmits an option as a key with a typed value. When a topic is created, the
//! values of all options are stored with it, including those of options with their default. The
//! keys of the options that the client set are stored as well.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::BytesMut;
use iggy_binary_protocol::requests::system::{
    DescribeOptionsRequest, OPTIONS_SCOPE_STREAM, OPTIONS_SCOPE_TOPIC, OPTIONS_SCOPE_USER,
};
use iggy_binary_protocol::responses::streams::get_stream::TopicHeader;
use iggy_binary_protocol::responses::system::describe_options::{
    DescribeOptionsResponse, OptionDescriptor,
};
use iggy_binary_protocol::{
    WireDecode, WireEncode, WireName, WireOptions, WireUserHeaderEntry, encode_user_headers,
};
use serde::{Deserialize, Serialize};
use tailwater_log::{Durability, Log, TopicId, TopicOptions};

use super::{Outcome, Request};
use crate::config::{self, Bound, Config, TopicDefaults};
use crate::state::State;
use crate::status::Status;

/// Codes of the types of values in the protocol.
const STRING: u8 = 2;
const BOOL: u8 = 3;
const UINT8: u8 = 9;
const UINT32: u8 = 11;
const UINT64: u8 = 12;

/// Value in the protocol that means "no limit", for a size, or "no expiry", for an age.
const UNLIMITED: u64 = u64::MAX;
/// Upper bound of the option `messages_required_to_save`.
const MESSAGES_REQUIRED_MAX: u32 = 16 << 20;
/// Upper bound of the option `size_of_messages_required_to_save`, in bytes.
const BYTES_REQUIRED_MAX: u64 = 1 << 30;

/// An option of topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Key {
    CompressionAlgorithm,
    MessageExpiry,
    MaxTopicSize,
    SegmentSize,
    Durability,
    EnforceFsync,
    ConsumerOffsetDurability,
    MessagesRequiredToSave,
    SizeOfMessagesRequiredToSave,
    PreallocateSegments,
}

/// All options: the enum variant, the key in the protocol, the code of the value's type, and the
/// description that clients can request.
const KEYS: &[(Key, &str, u8, &str)] = &[
    (
        Key::CompressionAlgorithm,
        "compression_algorithm",
        STRING,
        "Compression that clients agree on: none or gzip. The server stores messages as they are",
    ),
    (
        Key::MessageExpiry,
        "message_expiry",
        UINT64,
        "Age at which messages are removed, in microseconds or as 7 days; whole segments are removed",
    ),
    (
        Key::MaxTopicSize,
        "max_topic_size",
        UINT64,
        "Size of the topic from which its oldest segments are removed, in bytes or as 10 GiB",
    ),
    (
        Key::SegmentSize,
        "segment_size",
        UINT64,
        "Size at which a segment is sealed, in bytes or as 128 MiB: 1 MiB to 1 GiB, in 512-byte steps",
    ),
    (
        Key::Durability,
        "durability",
        STRING,
        "What an acknowledged message survives: replicated (the process), persisted (a power cut)",
    ),
    (
        Key::EnforceFsync,
        "enforce_fsync",
        BOOL,
        "An older name: true is the durability persisted, false is replicated",
    ),
    (
        Key::ConsumerOffsetDurability,
        "consumer_offset_durability",
        STRING,
        "What a stored offset survives: replicated (the process), persisted (a power cut)",
    ),
    (
        Key::MessagesRequiredToSave,
        "messages_required_to_save",
        UINT32,
        "Number of unpersisted messages that triggers a persist: 1 to 16777216",
    ),
    (
        Key::SizeOfMessagesRequiredToSave,
        "size_of_messages_required_to_save",
        UINT64,
        "Unpersisted bytes that trigger a persist, at most 1 GiB",
    ),
    (
        Key::PreallocateSegments,
        "preallocate_segments",
        BOOL,
        "Accepted without effect: space is always preallocated, up to 16 MiB ahead of writes",
    ),
];

/// Options that a client can change after the topic was created.
const UPDATABLE: &[Key] = &[Key::CompressionAlgorithm, Key::MessageExpiry, Key::MaxTopicSize];

/// The values of all options of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Settings {
    /// Keys of the options that the client set. All other options have their defaults.
    explicit: BTreeSet<Key>,
    /// Code of the compression of messages in the protocol: 1 for none, 2 for gzip.
    pub(super) compression: u8,
    /// Age at which messages are removed, in microseconds, or [`UNLIMITED`].
    pub(super) message_expiry_us: u64,
    /// Size of the topic above which its oldest segments are removed, in bytes, or [`UNLIMITED`].
    pub(super) topic_bytes_max: u64,
    segment_bytes: u64,
    durability: Durability,
    offset_durability: Durability,
    messages_required_to_save: u32,
    size_of_messages_required_to_save: u64,
    preallocates: bool,
}

impl Settings {
    fn defaults(defaults: &TopicDefaults) -> Self {
        let expiry = defaults.message_expiry.map(|expiry| expiry.as_micros());
        let expiry = expiry.map(|us| u64::try_from(us).unwrap_or(UNLIMITED));
        Self {
            explicit: BTreeSet::new(),
            compression: 1,
            message_expiry_us: expiry.unwrap_or(UNLIMITED),
            topic_bytes_max: defaults.topic_bytes_max.unwrap_or(UNLIMITED),
            segment_bytes: defaults.segment_bytes,
            durability: defaults.durability,
            offset_durability: if defaults.are_offsets_durable {
                Durability::Disk
            } else {
                Durability::Process
            },
            messages_required_to_save: defaults.messages_required_to_save,
            size_of_messages_required_to_save: defaults.size_of_messages_required_to_save,
            preallocates: false,
        }
    }

    /// Returns the settings of a new topic: the values that the client set, and defaults for all
    /// other options.
    ///
    /// # Errors
    /// Unsupported key, for an unknown option; invalid value, if a value has the wrong type or is
    /// out of bounds.
    pub(super) fn create(options: &WireOptions, defaults: &TopicDefaults) -> Result<Self, Status> {
        let mut settings = Self::defaults(defaults);
        let entries = options.into_iter().map(|entry| Ok((key(&entry)?, entry)));
        let mut entries = entries.collect::<Result<Vec<_>, Status>>()?;
        // The option `enforce_fsync` is applied last, because its effect depends on whether the
        // client also set the durability option.
        entries.sort_by_key(|(key, _)| *key == Key::EnforceFsync);
        for (key, entry) in &entries {
            settings.set(*key, entry)?;
        }
        settings.check()?;
        Ok(settings)
    }

    /// Changes the options that an update sets, and leaves all others unchanged.
    ///
    /// # Errors
    /// The errors of [`Self::create`]; an error for an option that cannot be changed after the
    /// creation.
    pub(super) fn update(&mut self, options: &WireOptions) -> Result<(), Status> {
        for entry in options {
            let key = key(&entry)?;
            if !UPDATABLE.contains(&key) {
                return Err(Status::UNSUPPORTED_OPTION_KEY);
            }
            self.set(key, &entry)?;
        }
        self.check()
    }

    fn check(&self) -> Result<(), Status> {
        if self.topic_bytes_max < self.segment_bytes {
            return Err(Status::INVALID_TOPIC_SIZE);
        }
        Ok(())
    }

    /// Sets one option. A size or expiry of 0 means "not set", and leaves the current value
    /// unchanged. In a new topic, the current value is the default.
    fn set(&mut self, key: Key, entry: &WireUserHeaderEntry<'_>) -> Result<(), Status> {
        let mut is_chosen = true;
        let mut or_unchanged = |value: u64, unchanged: u64| {
            is_chosen = value != 0;
            if is_chosen { value } else { unchanged }
        };
        match key {
            Key::CompressionAlgorithm => self.compression = compression(entry)?,
            Key::MessageExpiry => {
                let value = number(entry, expiry_us)?;
                self.message_expiry_us = or_unchanged(value, self.message_expiry_us);
            }
            Key::MaxTopicSize => {
                let value = number(entry, size_bytes)?;
                self.topic_bytes_max = or_unchanged(value, self.topic_bytes_max);
            }
            Key::SegmentSize => {
                let value = number(entry, config::parse_size)?;
                let value = or_unchanged(value, self.segment_bytes);
                if !config::is_segment_size(value) {
                    return Err(Status::INVALID_OPTION_VALUE);
                }
                self.segment_bytes = value;
            }
            Key::Durability => self.durability = durability(entry)?,
            // `false` does not overwrite a durability that the client has set, because clients that
            // support the durability option always send both options, even if the program set only
            // the durability.
            Key::EnforceFsync => match boolean(entry)? {
                true => self.durability = Durability::Disk,
                false if self.explicit.contains(&Key::Durability) => {}
                false => self.durability = Durability::Process,
            },
            Key::ConsumerOffsetDurability => self.offset_durability = durability(entry)?,
            Key::MessagesRequiredToSave => {
                let value = small_number(entry)?;
                if !(1..=MESSAGES_REQUIRED_MAX).contains(&value) {
                    return Err(Status::INVALID_OPTION_VALUE);
                }
                self.messages_required_to_save = value;
            }
            Key::SizeOfMessagesRequiredToSave => {
                let value = number(entry, config::parse_size)?;
                if value > BYTES_REQUIRED_MAX {
                    return Err(Status::INVALID_OPTION_VALUE);
                }
                self.size_of_messages_required_to_save =
                    or_unchanged(value, self.size_of_messages_required_to_save);
            }
            Key::PreallocateSegments => self.preallocates = boolean(entry)?,
        }
        if is_chosen {
            self.explicit.insert(key);
        }
        Ok(())
    }

    /// Converts the settings to the log's options for a topic with `partitions` partitions. The
    /// maximum size of the topic is divided equally among the partitions.
    pub(super) fn to_log(&self, config: &Config, partitions: usize) -> TopicOptions {
        let defaults = &config.topics;
        let bounded = |value: u64| (value != UNLIMITED && config.is_retention_on).then_some(value);
        let share = |bytes: u64| (bytes / partitions.max(1) as u64).max(self.segment_bytes);
        let save_interval = defaults.save_interval.as_micros();
        TopicOptions::new()
            .with_durability(self.durability)
            .with_messages_required_to_save(self.messages_required_to_save)
            .with_size_of_messages_required_to_save(self.size_of_messages_required_to_save)
            .with_save_interval_us(u64::try_from(save_interval).unwrap_or(u64::MAX))
            .with_segment_bytes(self.segment_bytes)
            .with_message_expiry_us(bounded(self.message_expiry_us))
            .with_partition_bytes_max(bounded(self.topic_bytes_max).map(share))
            .with_partial_blocks(defaults.partial_blocks)
            .with_are_offsets_durable(self.offset_durability == Durability::Disk)
            .with_attributes(serde_json::to_string(self).unwrap_or_default())
    }

    /// Returns the stored settings of a topic. A topic that the server did not create has no stored
    /// settings; they are then derived from the log's options for the topic.
    pub(super) fn of(options: &TopicOptions, defaults: &TopicDefaults) -> Self {
        serde_json::from_str(&options.attributes).unwrap_or_else(|_| Self {
            durability: options.durability,
            segment_bytes: options.segment_bytes,
            message_expiry_us: options.message_expiry_us.unwrap_or(UNLIMITED),
            messages_required_to_save: options.messages_required_to_save,
            size_of_messages_required_to_save: options.size_of_messages_required_to_save,
            ..Self::defaults(defaults)
        })
    }

    /// If `are_explicit` is true, encodes the options that the client set, with their values.
    /// Otherwise encodes all other options, with their defaults. `enforce_fsync`, an older option
    /// for the durability, is encoded only if the client set it.
    pub(super) fn to_wire(&self, are_explicit: bool) -> WireOptions {
        let is_wanted = |key: Key| {
            self.explicit.contains(&key) == are_explicit
                && (are_explicit || key != Key::EnforceFsync)
        };
        let wanted = KEYS.iter().filter(|(key, ..)| is_wanted(*key));
        let mut bytes = BytesMut::new();
        for (key, name, kind, _) in wanted {
            let value = self.value(*key);
            encode_user_headers(&[(STRING, name.as_bytes(), *kind, &value)], &mut bytes);
        }
        WireOptions::from_validated(bytes.freeze())
    }

    /// Returns the encoded value of an option.
    fn value(&self, key: Key) -> Vec<u8> {
        match key {
            Key::CompressionAlgorithm => match self.compression {
                2 => b"gzip".to_vec(),
                _ => b"none".to_vec(),
            },
            Key::MessageExpiry => self.message_expiry_us.to_le_bytes().to_vec(),
            Key::MaxTopicSize => self.topic_bytes_max.to_le_bytes().to_vec(),
            Key::SegmentSize => self.segment_bytes.to_le_bytes().to_vec(),
            Key::Durability => durability_name(self.durability).as_bytes().to_vec(),
            Key::EnforceFsync => vec![u8::from(self.durability == Durability::Disk)],
            Key::ConsumerOffsetDurability => {
                durability_name(self.offset_durability).as_bytes().to_vec()
            }
            Key::MessagesRequiredToSave => self.messages_required_to_save.to_le_bytes().to_vec(),
            Key::SizeOfMessagesRequiredToSave => {
                self.size_of_messages_required_to_save.to_le_bytes().to_vec()
            }
            Key::PreallocateSegments => vec![u8::from(self.preallocates)],
        }
    }
}

/// Returns the log's options for a topic that is imported, with `partitions` partitions. Options
/// that the source reports have the source's values; all others have their defaults.
pub(crate) fn imported_options(topic: &TopicHeader, partitions: u32) -> TopicOptions {
    let config = Config::default();
    let mut settings = Settings::defaults(&config.topics);
    settings.compression = topic.compression_algorithm;
    for (key, value, kept) in [
        (Key::MessageExpiry, topic.message_expiry, &mut settings.message_expiry_us),
        (Key::MaxTopicSize, topic.max_topic_size, &mut settings.topic_bytes_max),
    ] {
        if value != 0 && value != UNLIMITED {
            settings.explicit.insert(key);
            *kept = value;
        }
    }
    settings.to_log(&config, partitions as usize)
}

/// Updates the options of existing topics according to the configuration key
/// `data_maintenance.messages.cleaner_enabled`. The key determines whether messages are removed by
/// age and size.
///
/// # Errors
/// Errors from the log.
pub(crate) fn apply_config(log: &Log, config: &Config) -> tailwater_log::Result<()> {
    let catalog = log.catalog();
    for (stream, info) in catalog.streams() {
        for (topic, info) in &info.topics {
            let settings = Settings::of(&info.options, &config.topics);
            let options = settings.to_log(config, info.partitions.len());
            let bounds =
                |options: &TopicOptions| (options.message_expiry_us, options.partition_bytes_max);
            if bounds(&options) != bounds(&info.options) {
                let id = TopicId { stream: *stream, topic: *topic };
                log.update_topic(id, &info.name, &options)?;
            }
        }
    }
    Ok(())
}

/// Returns every option with its kind, default and description.
pub(super) fn describe(state: &State, request: &Request<'_>) -> Outcome {
    let entries = match DescribeOptionsRequest::decode_from(request.body)?.scope {
        OPTIONS_SCOPE_TOPIC => {
            let defaults = Settings::defaults(&state.config.topics);
            let describe = |(key, name, kind, description): &(Key, &str, u8, &str)| {
                Ok(OptionDescriptor {
                    key: WireName::new(*name)?,
                    kind: *kind,
                    default_value: defaults.value(*key).into(),
                    description: (*description).to_owned(),
                })
            };
            KEYS.iter().map(describe).collect::<Result<Vec<_>, Status>>()?
        }
        OPTIONS_SCOPE_STREAM | OPTIONS_SCOPE_USER => Vec::new(),
        _ => return Err(Status::INVALID_COMMAND),
    };
    Ok(DescribeOptionsResponse { entries }.to_bytes().to_vec())
}

/// Rejects a request that sets any option: streams and users have no options.
///
/// # Errors
/// Unsupported key, if the request sets an option.
pub(super) fn refuse_all(options: &WireOptions) -> Result<(), Status> {
    if options.is_empty() { Ok(()) } else { Err(Status::UNSUPPORTED_OPTION_KEY) }
}

fn key(entry: &WireUserHeaderEntry<'_>) -> Result<Key, Status> {
    let found = KEYS.iter().find(|(_, name, ..)| name.as_bytes() == entry.key);
    found.map(|(key, ..)| *key).ok_or(Status::UNSUPPORTED_OPTION_KEY)
}

fn text<'a>(entry: &WireUserHeaderEntry<'a>) -> Option<&'a str> {
    std::str::from_utf8(entry.value).ok().filter(|_| entry.value_kind.0 == STRING)
}

/// Returns the value of an option as a number. A value that is a string is converted with `parse`.
fn number(
    entry: &WireUserHeaderEntry<'_>,
    parse: impl Fn(&str) -> Option<u64>,
) -> Result<u64, Status> {
    let value = match entry.value_kind.0 {
        UINT64 => entry.value.try_into().ok().map(u64::from_le_bytes),
        _ => text(entry).and_then(parse),
    };
    value.ok_or(Status::INVALID_OPTION_VALUE)
}

fn small_number(entry: &WireUserHeaderEntry<'_>) -> Result<u32, Status> {
    let value = match entry.value_kind.0 {
        UINT32 => entry.value.try_into().ok().map(u32::from_le_bytes),
        _ => text(entry).and_then(|text| text.parse().ok()),
    };
    value.ok_or(Status::INVALID_OPTION_VALUE)
}

fn boolean(entry: &WireUserHeaderEntry<'_>) -> Result<bool, Status> {
    let value = match (entry.value_kind.0, entry.value) {
        (BOOL, [0]) => Some(false),
        (BOOL, [1]) => Some(true),
        _ => text(entry).and_then(|text| text.parse().ok()),
    };
    value.ok_or(Status::INVALID_OPTION_VALUE)
}

fn compression(entry: &WireUserHeaderEntry<'_>) -> Result<u8, Status> {
    let value = match (entry.value_kind.0, entry.value) {
        (UINT8, [code @ 1..=2]) => Some(*code),
        _ => text(entry).and_then(|text| match text.to_ascii_lowercase().as_str() {
            "none" => Some(1),
            "gzip" => Some(2),
            _ => None,
        }),
    };
    value.ok_or(Status::INVALID_OPTION_VALUE)
}

fn durability(entry: &WireUserHeaderEntry<'_>) -> Result<Durability, Status> {
    let value = text(entry).and_then(|text| match text.to_ascii_lowercase().as_str() {
        "replicated" => Some(Durability::Process),
        "persisted" => Some(Durability::Disk),
        _ => None,
    });
    value.ok_or(Status::INVALID_OPTION_VALUE)
}

/// Returns Iggy's name for a durability. Iggy has no name for `memory`, which only the server's
/// configuration can select; that durability is reported as `replicated`.
fn durability_name(durability: Durability) -> &'static str {
    match durability {
        Durability::Disk => "persisted",
        Durability::Process | Durability::Memory => "replicated",
        // A durability that neither Iggy nor this server knows is reported by its own name.
        unknown => unknown.name(),
    }
}

fn expiry_us(text: &str) -> Option<u64> {
    let micros = |expiry: Duration| u64::try_from(expiry.as_micros()).ok();
    from_bound(config::parse_bound(text, |text| config::parse_duration(text).and_then(micros))?)
}

fn size_bytes(text: &str) -> Option<u64> {
    from_bound(config::parse_bound(text, config::parse_size)?)
}

/// Converts a parsed bound to its number in the protocol; `None` for the server's default.
fn from_bound(bound: Bound<u64>) -> Option<u64> {
    Some(match bound {
        Bound::Default => 0,
        Bound::Unlimited => UNLIMITED,
        Bound::At(value) => value,
    })
}
