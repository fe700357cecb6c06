//! Frames of Iggy's protocol 0.11. A frame is a header of 256 bytes, followed by a body.
//!
//! Only this module knows the offsets of fields in headers. Bodies are encoded and decoded with the
//! crate `iggy_binary_protocol`, whose version is that of the protocol.

use iggy_binary_protocol::codes::{
    LOGIN_USER_CODE, LOGIN_WITH_PERSONAL_ACCESS_TOKEN_CODE, PING_CODE,
};
use iggy_binary_protocol::consensus::{
    Command, EvictionHeader, RESULT_COUNT_LEN, ReplyHeader, RequestHeader, read_size_field,
};
use iggy_binary_protocol::{
    ConsensusHeader, EvictionReason, HEADER_SIZE, IGGY_PROTOCOL_VERSION, IGGY_PROTOCOL_VERSION_MIN,
    Operation, lookup_by_operation,
};

/// Length of a frame's header, in bytes.
pub(crate) const HEADER_BYTES: usize = HEADER_SIZE;
/// Length of a result section that contains no errors, in bytes. The bodies of some replies begin
/// with this section.
const RESULT_BYTES: usize = RESULT_COUNT_LEN;
/// Offset of the field `command` in all headers, in bytes.
const COMMAND_OFFSET: usize = 60;
/// Position of the client's id in the header of a request, in bytes.
const CLIENT_RANGE: std::ops::Range<usize> = 128..144;

/// Number of bytes at the start of a client's first frame that show whether the client uses Iggy's
/// earlier protocol (server 0.8 and before).
pub(crate) const START_BYTES: usize = 8;
/// Maximum size of the first frame of a client that uses Iggy's earlier protocol (server 0.8 and
/// before), in bytes.
const EARLIER_FRAME_BYTES: u32 = 4 << 10;

/// Returns whether a client's first frame, which begins with `start`, belongs to Iggy's earlier
/// protocol (server 0.8 and before). A frame of the earlier protocol consists of the length of the
/// rest, a command code and a body; the first command is a ping or a login. A frame of this
/// protocol begins with a checksum instead, which clients leave at 0.
pub(crate) fn is_earlier_protocol(start: [u8; START_BYTES]) -> bool {
    let [a, b, c, d, e, f, g, h] = start;
    let (length, code) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    let first = [PING_CODE, LOGIN_USER_CODE, LOGIN_WITH_PERSONAL_ACCESS_TOKEN_CODE];
    (4..=EARLIER_FRAME_BYTES).contains(&length) && first.contains(&code)
}

/// Encodes a reply of the earlier protocol that refuses a request: the status, and 0 as the length
/// of the body.
pub(crate) fn encode_earlier_refusal(status: u32) -> [u8; 8] {
    u64::from(status).to_le_bytes()
}

/// The decoded header of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// The id that the client chose for itself.
    pub(crate) client: u128,
    /// Number of the request within the session; 0 for a request that changes nothing.
    pub(crate) request: u64,
    /// Number of the session, which the server assigned at the login.
    pub(crate) session: u64,
    pub(crate) operation: Operation,
    /// Code of the command; 0 for a login.
    pub(crate) code: u32,
    /// The client's checksum of the body; 0 if the client sent none. It distinguishes a repetition
    /// of a request from another request with the same number.
    pub(crate) checksum: u128,
}

/// The error for a header with an invalid value. The error contains the client and the reason to
/// end the client's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidHead {
    /// The id that the client chose for itself.
    pub(crate) client: u128,
    pub(crate) reason: EvictionReason,
}

/// Returns the length of a request's body, in bytes. Returns `None` if the header belongs to no
/// request, if the frame is smaller than a header, or if it is larger than `frame_bytes_max`. The
/// start of the next frame is then unknown.
pub(crate) fn body_bytes(header: &[u8; HEADER_BYTES], frame_bytes_max: usize) -> Option<usize> {
    let size = read_size_field(header)? as usize;
    let is_request = header[COMMAND_OFFSET] == Command::Request as u8;
    size.checked_sub(HEADER_BYTES).filter(|_| is_request && size <= frame_bytes_max)
}

/// Decodes the header of a request whose length is valid.
///
/// # Errors
/// A field of the header has an invalid value.
pub(crate) fn decode_head(bytes: &[u8; HEADER_BYTES]) -> Result<Head, InvalidHead> {
    let mut client = [0; 16];
    client.copy_from_slice(&bytes[CLIENT_RANGE]);
    let client = u128::from_le_bytes(client);
    let invalid = |reason| InvalidHead { client, reason };
    let header: RequestHeader = bytemuck::checked::try_pod_read_unaligned(bytes)
        .map_err(|_| invalid(EvictionReason::InvalidRequestOperation))?;
    header.validate().map_err(|_| invalid(EvictionReason::InvalidRequestBody))?;
    let code = match header.operation {
        Operation::NonReplicated => {
            let [a, b, c, d, ..] = header.reserved;
            u32::from_le_bytes([a, b, c, d])
        }
        Operation::Register => 0,
        Operation::Logout => iggy_binary_protocol::codes::LOGOUT_USER_CODE,
        operation => match lookup_by_operation(operation) {
            Some(command) => command.code,
            None => return Err(invalid(EvictionReason::InvalidRequestOperation)),
        },
    };
    Ok(Head {
        client,
        request: header.request,
        session: header.session,
        operation: header.operation,
        code,
        checksum: header.request_checksum,
    })
}

impl Head {
    /// Returns whether the request changes state. Such a request has a number, and must be executed
    /// only once.
    pub(crate) fn is_replicated(&self) -> bool {
        !matches!(
            self.operation,
            Operation::NonReplicated | Operation::Register | Operation::Logout
        )
    }

    /// Returns whether the body of the reply begins with a result section.
    fn has_results(&self) -> bool {
        self.operation.is_result_framed() || self.operation == Operation::Register
    }

    /// Encodes the header of a reply and, if this kind of reply has one, the result section.
    /// `body_bytes` is the length of the rest of the body; it must be 0 if the status is not 0.
    /// `commit` is the value of `State::commit`.
    pub(crate) fn reply(&self, status: u32, body_bytes: usize, commit: u64) -> ReplyStart {
        let results = if status == 0 && self.has_results() { RESULT_BYTES } else { 0 };
        let size = HEADER_BYTES + results + body_bytes;
        let header = ReplyHeader {
            command: Command::Reply,
            size: u32::try_from(size).unwrap_or(u32::MAX),
            request_checksum: self.checksum,
            client: self.client,
            op: self.session,
            commit,
            request: self.request,
            operation: self.operation,
            status,
            ..ReplyHeader::default()
        };
        let mut bytes = [0; HEADER_BYTES + RESULT_BYTES];
        bytes[..HEADER_BYTES].copy_from_slice(bytemuck::bytes_of(&header));
        ReplyStart { bytes, length: HEADER_BYTES + results }
    }
}

/// The encoded start of a reply: the header and the result section, if the reply has one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplyStart {
    bytes: [u8; HEADER_BYTES + RESULT_BYTES],
    length: usize,
}

impl AsRef<[u8]> for ReplyStart {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Encodes the frame that tells a client that its session has ended, and why.
pub(crate) fn encode_eviction(client: u128, reason: EvictionReason) -> [u8; HEADER_BYTES] {
    // Clients cannot decode a frame whose client id is 0.
    let client = client.max(1);
    let header = match reason {
        EvictionReason::IncompatibleProtocol => EvictionHeader::incompatible_protocol(
            0,
            0,
            0,
            client,
            IGGY_PROTOCOL_VERSION,
            IGGY_PROTOCOL_VERSION_MIN,
        ),
        reason => EvictionHeader::new(0, 0, 0, client, reason),
    };
    let mut bytes = [0; HEADER_BYTES];
    bytes.copy_from_slice(bytemuck::bytes_of(&header));
    bytes
}
