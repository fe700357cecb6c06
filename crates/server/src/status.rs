//! The status codes of replies, which are Iggy's error codes.

use std::fmt;

use iggy_binary_protocol::WireError;
use tailwater_log::{Error, ErrorKind};

/// The status of a reply: Iggy's code of an error, or 0 for success. A reply with another status
/// than 0 has no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Status(pub(crate) u32);

/// Declares the statuses that the server uses, with their codes and Iggy's names.
macro_rules! statuses {
    ($($constant:ident = $code:literal, $name:literal;)*) => {
        impl Status {
            $(
                #[doc = concat!("Iggy's `", $name, "`.")]
                pub(crate) const $constant: Self = Self($code);
            )*

            /// Returns Iggy's name of the status.
            pub(crate) fn name(self) -> &'static str {
                match self.0 {
                    $($code => $name,)*
                    _ => "Unknown",
                }
            }
        }

        /// Every status with its name, for the test that compares them with Iggy's table.
        #[cfg(test)]
        const NAMES: &[(u32, &str)] = &[$(($code, $name)),*];
    };
}

statuses! {
    ERROR = 1, "Error";
    INVALID_COMMAND = 3, "InvalidCommand";
    INVALID_FORMAT = 4, "InvalidFormat";
    FEATURE_UNAVAILABLE = 5, "FeatureUnavailable";
    RESOURCE_NOT_FOUND = 20, "ResourceNotFound";
    UNAUTHENTICATED = 40, "Unauthenticated";
    UNAUTHORIZED = 41, "Unauthorized";
    INVALID_CREDENTIALS = 42, "InvalidCredentials";
    INVALID_USERNAME = 43, "InvalidUsername";
    INVALID_PASSWORD = 44, "InvalidPassword";
    INVALID_USER_STATUS = 45, "InvalidUserStatus";
    USER_ALREADY_EXISTS = 46, "UserAlreadyExists";
    CANNOT_DELETE_USER = 48, "CannotDeleteUser";
    CANNOT_CHANGE_PERMISSIONS = 49, "CannotChangePermissions";
    INVALID_PERSONAL_ACCESS_TOKEN_NAME = 50, "InvalidPersonalAccessTokenName";
    PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS = 51, "PersonalAccessTokenAlreadyExists";
    PERSONAL_ACCESS_TOKENS_LIMIT_REACHED = 52, "PersonalAccessTokensLimitReached";
    USERS_LIMIT_REACHED = 55, "UsersLimitReached";
    INVALID_PERSONAL_ACCESS_TOKEN_EXPIRY = 56, "InvalidPersonalAccessTokenExpiry";
    TRANSIENT_NOT_ACCEPTED = 58, "TransientNotAccepted";
    REQUEST_ALREADY_APPLIED = 59, "RequestAlreadyApplied";
    INVALID_SIZE_BYTES = 80, "InvalidSizeBytes";
    STREAM_ID_NOT_FOUND = 1009, "StreamIdNotFound";
    STREAM_NAME_ALREADY_EXISTS = 1012, "StreamNameAlreadyExists";
    INVALID_STREAM_NAME = 1013, "InvalidStreamName";
    INVALID_TOPIC_SIZE = 1019, "InvalidTopicSize";
    TOO_MANY_STREAMS = 1020, "TooManyStreams";
    TOPIC_ID_NOT_FOUND = 2010, "TopicIdNotFound";
    TOPIC_NAME_ALREADY_EXISTS = 2013, "TopicNameAlreadyExists";
    INVALID_TOPIC_NAME = 2014, "InvalidTopicName";
    TOO_MANY_PARTITIONS = 2015, "TooManyPartitions";
    INVALID_PARTITIONS_COUNT = 2019, "InvalidPartitionsCount";
    TOO_MANY_TOPICS = 2021, "TooManyTopics";
    PARTITION_NOT_FOUND = 3007, "PartitionNotFound";
    NO_PARTITIONS = 3008, "NoPartitions";
    CONSUMER_OFFSET_NOT_FOUND = 3021, "ConsumerOffsetNotFound";
    TOO_MANY_CONSUMER_OFFSETS = 3024, "TooManyConsumerOffsets";
    INVALID_MESSAGES_COUNT = 4009, "InvalidMessagesCount";
    CANNOT_APPEND_MESSAGE = 4010, "CannotAppendMessage";
    CANNOT_READ_MESSAGE = 4011, "CannotReadMessage";
    INVALID_BATCH_CHECKSUM = 4039, "InvalidBatchChecksum";
    UNSUPPORTED_OPTION_KEY = 4041, "UnsupportedOptionKey";
    INVALID_OPTION_VALUE = 4042, "InvalidOptionValue";
    INVALID_OFFSET = 4100, "InvalidOffset";
    CONSUMER_GROUP_ID_NOT_FOUND = 5000, "ConsumerGroupIdNotFound";
    CONSUMER_GROUP_NAME_NOT_FOUND = 5003, "ConsumerGroupNameNotFound";
    CONSUMER_GROUP_NAME_ALREADY_EXISTS = 5004, "ConsumerGroupNameAlreadyExists";
    CANNOT_CREATE_CONSUMER_GROUP_INFO = 5007, "CannotCreateConsumerGroupInfo";
    CONSUMER_GROUP_MEMBER_NOT_FOUND = 5006, "ConsumerGroupMemberNotFound";
    CONSUMER_GROUP_PARTITION_NOT_OWNED = 5009, "ConsumerGroupPartitionNotOwned";
    SNAPSHOT_FILE_COMPLETION_FAILED = 9000, "SnapshotFileCompletionFailed";
    CANNOT_SYNC_FILE = 10009, "CannotSyncFile";
    CANNOT_WRITE_TO_FILE = 10006, "CannotWriteToFile";
    IO_ERROR = 13000, "IoError";
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

impl From<WireError> for Status {
    /// Converts the error of decoding a request's body, which counts as an invalid command.
    fn from(_: WireError) -> Self {
        Self::INVALID_COMMAND
    }
}

impl From<Error> for Status {
    /// Converts an error from the log by its kind. Handlers that know a more precise status convert
    /// errors themselves.
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::InvalidArgument => Self::INVALID_FORMAT,
            ErrorKind::NotFound | ErrorKind::Closed => Self::RESOURCE_NOT_FOUND,
            ErrorKind::Full | ErrorKind::Busy | ErrorKind::OutOfDescriptors => {
                Self::TRANSIENT_NOT_ACCEPTED
            }
            ErrorKind::NoSpace => Self::CANNOT_WRITE_TO_FILE,
            ErrorKind::Corruption => Self::CANNOT_READ_MESSAGE,
            ErrorKind::NotSupported => Self::FEATURE_UNAVAILABLE,
            _ => Self::IO_ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use iggy::prelude::IggyError;

    use super::NAMES;

    #[test]
    fn status_codes_match_those_of_iggy() {
        for (code, name) in NAMES {
            let iggys = format!("{:?}", IggyError::from_code(*code));
            let iggys = iggys.split('(').next().unwrap_or_default();
            assert_eq!(iggys, *name, "code {code}");
        }
    }
}
