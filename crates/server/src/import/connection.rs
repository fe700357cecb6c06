//! A client's connection to a server from which messages are imported. It has at most one request
//! in flight, and sends no command that changes anything on the server, except for the login.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use iggy_binary_protocol::consensus::{
    Command, ReplyHeader, RequestHeader, result_code, result_section_len,
};
use iggy_binary_protocol::requests::messages::PollMessagesRequest;
use iggy_binary_protocol::requests::topics::{GetTopicRequest, GetTopicsRequest};
use iggy_binary_protocol::requests::users::LoginRegisterRequest;
use iggy_binary_protocol::responses::streams::get_stream::TopicHeader;
use iggy_binary_protocol::responses::streams::{GetStreamsResponse, StreamResponse};
use iggy_binary_protocol::responses::topics::get_topic::{GetTopicResponse, PartitionResponse};
use iggy_binary_protocol::responses::topics::get_topics::GetTopicsResponse;
use iggy_binary_protocol::responses::users::LoginRegisterResponse;
use iggy_binary_protocol::{
    ClientVersionInfo, HEADER_SIZE, IGGY_PROTOCOL_VERSION, Operation, WireConsumer, WireDecode,
    WireEncode, WireError, WireName, WirePollingStrategy, codes,
};
use secrecy::SecretString;
use tailwater_log::TopicId;

use super::{Source, numeric};
use crate::command::POLL_HEADER_BYTES;
use crate::status::Status;

/// Time limit for a reply. It is the time limit of Iggy's clients.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of a reply, in bytes.
const REPLY_BYTES_MAX: usize = 1 << 30;
/// Consumer id in poll requests. The server stores no offset for this consumer.
const CONSUMER: u32 = 1;

/// The reason why a request to a server failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The server cannot be reached, or the connection ended.
    Connection {
        /// The server's address.
        address: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The server refused a request.
    Refused {
        /// Name of the refused command.
        command: &'static str,
        /// Iggy's error code in the reply.
        status: u32,
    },
    /// The server ended the session in reply to this command.
    Evicted(&'static str),
    /// The reply violates the protocol.
    Protocol(String),
    /// The requested object does not exist on the server.
    Missing(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection { address, source } => write!(f, "{address}: {source}"),
            Self::Refused { command, status } => {
                write!(f, "{command} was refused: {} ({status})", Status(*status).name())
            }
            Self::Evicted(command) => {
                write!(f, "the server ended the session instead of answering {command}")
            }
            Self::Protocol(message) | Self::Missing(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connection { source, .. } => Some(source),
            _ => None,
        }
    }
}

type Result<T> = std::result::Result<T, ClientError>;

/// A connection that is logged in.
pub(super) struct Connection {
    address: String,
    stream: TcpStream,
    client: u128,
    session: u64,
}

impl Connection {
    /// Connects and logs in.
    pub(super) fn open(source: &Source) -> Result<Self> {
        let failed =
            |error| ClientError::Connection { address: source.address.clone(), source: error };
        let mut addresses = source.address.to_socket_addrs().map_err(failed)?;
        let address =
            addresses.next().ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))?;
        let stream = TcpStream::connect_timeout(&address, TIMEOUT).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
        let mut client = [0; 16];
        getrandom::fill(&mut client).map_err(|error| failed(io::Error::other(error)))?;
        let client = u128::from_le_bytes(client).max(1);
        let mut connection = Self { address: source.address.clone(), stream, client, session: 0 };
        connection.login(source)?;
        Ok(connection)
    }

    fn login(&mut self, source: &Source) -> Result<()> {
        let name = |text: &str| WireName::new(text).map_err(|error| decoding("login", &error));
        let request = LoginRegisterRequest {
            version_info: ClientVersionInfo {
                protocol_version: IGGY_PROTOCOL_VERSION,
                sdk_name: name("tailwater-import")?,
                sdk_version: name(env!("CARGO_PKG_VERSION"))?,
            },
            username: name(&source.username)?,
            password: SecretString::from(source.password.clone()),
            client_context: None,
        };
        if source.password.len() > usize::from(u8::MAX) {
            return Err(ClientError::Protocol("a password has at most 255 bytes".to_owned()));
        }
        let header = RequestHeader { operation: Operation::Register, ..RequestHeader::default() };
        let reply = self.exchange("login", header, &request.to_bytes())?;
        match result_code(&reply) {
            Some(0) => {}
            Some(status) => return Err(ClientError::Refused { command: "login", status }),
            None => return Err(ClientError::Protocol("login: a reply without results".to_owned())),
        }
        let body = result_section_len(&reply).and_then(|length| reply.get(length..));
        let response = LoginRegisterResponse::decode_from(body.unwrap_or_default())
            .map_err(|error| decoding("login", &error))?;
        self.session = response.session;
        Ok(())
    }

    /// Sends a command that changes nothing on the server, and returns the body of the reply.
    /// `command` is its name for errors.
    fn read(
        &mut self,
        command: &'static str,
        code: u32,
        request: &impl WireEncode,
    ) -> Result<Vec<u8>> {
        let mut header = RequestHeader {
            operation: Operation::NonReplicated,
            request: 1,
            session: self.session,
            ..RequestHeader::default()
        };
        header.reserved[..4].copy_from_slice(&code.to_le_bytes());
        self.exchange(command, header, &request.to_bytes())
    }

    fn exchange(
        &mut self,
        command: &'static str,
        header: RequestHeader,
        body: &[u8],
    ) -> Result<Vec<u8>> {
        let size = u32::try_from(HEADER_SIZE + body.len());
        let size =
            size.map_err(|_| ClientError::Protocol(format!("{command}: request too large")))?;
        let header =
            RequestHeader { command: Command::Request, client: self.client, size, ..header };
        let address = self.address.clone();
        let failed = |source| ClientError::Connection { address: address.clone(), source };
        let frame = [bytemuck::bytes_of(&header), body].concat();
        self.stream.write_all(&frame).map_err(failed)?;

        let mut bytes = [0; HEADER_SIZE];
        self.stream.read_exact(&mut bytes).map_err(failed)?;
        if bytes[60] == Command::Eviction as u8 {
            return Err(ClientError::Evicted(command));
        }
        let reply: ReplyHeader = bytemuck::checked::try_pod_read_unaligned(&bytes)
            .map_err(|error| ClientError::Protocol(format!("{command}: no reply: {error}")))?;
        let size = reply.size as usize;
        if reply.command != Command::Reply || !(HEADER_SIZE..=REPLY_BYTES_MAX).contains(&size) {
            return Err(ClientError::Protocol(format!("{command}: no reply of {size} bytes")));
        }
        // The buffer grows as bytes arrive. A wrong length in the header therefore cannot cause a
        // large allocation.
        let mut body = Vec::new();
        let length = size - HEADER_SIZE;
        Read::by_ref(&mut self.stream)
            .take(length as u64)
            .read_to_end(&mut body)
            .map_err(failed)?;
        if body.len() < length {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        match reply.status {
            0 => Ok(body),
            status => Err(ClientError::Refused { command, status }),
        }
    }

    /// Returns all streams.
    pub(super) fn streams(&mut self) -> Result<Vec<StreamResponse>> {
        let request = iggy_binary_protocol::requests::streams::GetStreamsRequest;
        let body = self.read("stream list", codes::GET_STREAMS_CODE, &request)?;
        let response = GetStreamsResponse::decode_from(&body);
        Ok(response.map_err(|error| decoding("stream list", &error))?.streams)
    }

    /// Returns the topics of a stream.
    pub(super) fn topics(&mut self, stream: u32) -> Result<Vec<TopicHeader>> {
        let request = GetTopicsRequest { stream_id: numeric(stream) };
        let body = self.read("topic list", codes::GET_TOPICS_CODE, &request)?;
        let response = GetTopicsResponse::decode_from(&body);
        Ok(response.map_err(|error| decoding("topic list", &error))?.topics)
    }

    /// Returns a topic's partitions; none if the topic no longer exists.
    pub(super) fn partitions(&mut self, stream: u32, topic: u32) -> Result<Vec<PartitionResponse>> {
        let request = GetTopicRequest { stream_id: numeric(stream), topic_id: numeric(topic) };
        let body = self.read("topic", codes::GET_TOPIC_CODE, &request)?;
        if body.is_empty() {
            return Ok(Vec::new());
        }
        let response = GetTopicResponse::decode_from(&body);
        Ok(response.map_err(|error| decoding("topic", &error))?.partitions)
    }

    /// Polls `count` messages of a partition, beginning at `offset`. Returns the encoded batches of
    /// the reply, one after another.
    pub(super) fn poll(
        &mut self,
        topic: TopicId,
        partition: u32,
        offset: u64,
        count: u32,
    ) -> Result<Vec<u8>> {
        let request = PollMessagesRequest {
            consumer: WireConsumer::consumer(numeric(CONSUMER)),
            stream_id: numeric(topic.stream),
            topic_id: numeric(topic.topic),
            partition_id: Some(partition),
            strategy: WirePollingStrategy::offset(offset),
            count,
            auto_commit: false,
        };
        let mut body = self.read("poll", codes::POLL_MESSAGES_CODE, &request)?;
        if body.len() < POLL_HEADER_BYTES {
            let message = format!("poll: a reply of {} bytes", body.len());
            return Err(ClientError::Protocol(message));
        }
        body.drain(..POLL_HEADER_BYTES);
        Ok(body)
    }
}

fn decoding(command: &str, error: &WireError) -> ClientError {
    ClientError::Protocol(format!("{command}: {error}"))
}
