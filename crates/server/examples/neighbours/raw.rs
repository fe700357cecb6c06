//! A connection whose frames are sent and received at any rate, in parts, or not at all.

use std::net::SocketAddr;
use std::time::Duration;

use iggy_binary_protocol::consensus::{Command, ReplyHeader, RequestHeader};
use iggy_binary_protocol::requests::messages::PollMessagesRequest;
use iggy_binary_protocol::requests::users::LoginRegisterRequest;
use iggy_binary_protocol::responses::users::LoginRegisterResponse;
use iggy_binary_protocol::{
    ClientVersionInfo, HEADER_SIZE, IGGY_PROTOCOL_VERSION, Operation, WireConsumer, WireDecode,
    WireEncode, WireIdentifier, WireName, WirePartitioning, WirePollingStrategy, codes,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::interval;

use super::{Result, STREAM};

/// Rate of slow clients, in bytes per second: the slowest that the server permits.
const SLOWEST: usize = 1 << 20;
/// Number of transfers per second of a slow client.
const STEPS: usize = 16;
/// Length of the fields that precede the messages in the reply to a poll, in bytes.
const POLL_HEADER_BYTES: usize = 16;

/// A connection on which frames are sent and received at any rate.
pub(crate) struct Raw {
    stream: TcpStream,
    client: u128,
    session: u64,
}

impl Raw {
    pub(crate) async fn login(
        address: SocketAddr,
        client: u128,
        user: &str,
        password: &str,
    ) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut raw = Self { stream, client, session: 0 };
        let request = LoginRegisterRequest {
            version_info: ClientVersionInfo {
                protocol_version: IGGY_PROTOCOL_VERSION,
                sdk_name: WireName::new("neighbours")?,
                sdk_version: WireName::new("1")?,
            },
            username: WireName::new(user)?,
            password: password.to_owned().into(),
            client_context: None,
        };
        let body = request.to_bytes();
        raw.begin(Operation::Register, 0, 0, body.len()).await?;
        raw.stream.write_all(&body).await?;
        let (header, body) = raw.answer().await?;
        if header[60] != Command::Reply as u8 {
            return Err("the login was refused".into());
        }
        raw.session = LoginRegisterResponse::decode(body.get(4..).ok_or("no body")?)?.0.session;
        Ok(raw)
    }

    /// Sends the header of a request.
    async fn begin(&mut self, kind: Operation, request: u64, code: u32, body: usize) -> Result<()> {
        let mut reserved = [0; 60];
        reserved[..4].copy_from_slice(&code.to_le_bytes());
        let header = RequestHeader {
            command: Command::Request,
            operation: kind,
            size: (HEADER_SIZE + body) as u32,
            client: self.client,
            request,
            session: self.session,
            reserved,
            ..RequestHeader::default()
        };
        Ok(self.stream.write_all(bytemuck::bytes_of(&header)).await?)
    }

    /// Reads the header of an answer. Returns it with the length of the body.
    async fn answer_header(&mut self) -> Result<([u8; HEADER_SIZE], usize)> {
        let mut header = [0; HEADER_SIZE];
        self.stream.read_exact(&mut header).await?;
        let size = u32::from_le_bytes([header[48], header[49], header[50], header[51]]) as usize;
        Ok((header, size.checked_sub(HEADER_SIZE).ok_or("a size")?))
    }

    /// Reads an answer.
    pub(crate) async fn answer(&mut self) -> Result<([u8; HEADER_SIZE], Vec<u8>)> {
        let (header, length) = self.answer_header().await?;
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        Ok((header, body))
    }

    /// Sends a poll of `count` messages from an offset.
    pub(crate) async fn poll(&mut self, topic: &str, offset: u64, count: u32) -> Result<()> {
        let request = PollMessagesRequest {
            consumer: WireConsumer::consumer(WireIdentifier::numeric(1)),
            stream_id: WireIdentifier::named(STREAM)?,
            topic_id: WireIdentifier::named(topic)?,
            partition_id: Some(0),
            strategy: WirePollingStrategy::offset(offset),
            count,
            auto_commit: false,
        };
        let body = request.to_bytes();
        self.begin(Operation::NonReplicated, 0, codes::POLL_MESSAGES_CODE, body.len()).await?;
        Ok(self.stream.write_all(&body).await?)
    }

    /// Reads the reply to a poll and discards it, at [`SLOWEST`] if `is_slow`. Returns the number
    /// of messages.
    ///
    /// # Errors
    /// I/O errors; the poll failed.
    pub(crate) async fn discard_polled(&mut self, is_slow: bool) -> Result<u32> {
        let (header, length) = self.answer_header().await?;
        let reply: ReplyHeader = bytemuck::checked::pod_read_unaligned(&header);
        if reply.command != Command::Reply || reply.status != 0 {
            return Err(format!("the poll failed with status {}", reply.status).into());
        }
        let mut start = [0; POLL_HEADER_BYTES];
        self.stream.read_exact(&mut start).await?;
        let mut left = length.checked_sub(start.len()).ok_or("a size")?;
        let mut buffer = vec![0; if is_slow { SLOWEST / STEPS } else { 1 << 20 }];
        let mut pause = interval(Duration::from_secs(1) / STEPS as u32);
        while left > 0 {
            if is_slow {
                pause.tick().await;
            }
            let wanted = left.min(buffer.len());
            left -= match self.stream.read(&mut buffer[..wanted]).await? {
                0 => return Err("the connection ended within a reply".into()),
                read => read,
            };
        }
        Ok(u32::from_le_bytes([start[12], start[13], start[14], start[15]]))
    }

    /// Sends the first `sent` bytes of a request with a batch, at [`SLOWEST`] if `is_slow`.
    pub(crate) async fn send(
        &mut self,
        request: u64,
        batch: &[u8],
        sent: usize,
        is_slow: bool,
    ) -> Result<()> {
        let (stream, topic) = (WireIdentifier::named(STREAM)?, WireIdentifier::named("sink")?);
        let partitioning = WirePartitioning::PartitionId(0);
        let mut target = bytes::BytesMut::new();
        stream.encode(&mut target);
        topic.encode(&mut target);
        partitioning.encode(&mut target);
        target.extend_from_slice(&1_u32.to_le_bytes());
        let length = u32::try_from(target.len())?.to_le_bytes();
        let body = 4 + target.len() + batch.len();
        self.begin(Operation::SendMessages, request, 0, body).await?;
        self.stream.write_all(&[&length[..], &target].concat()).await?;
        let mut pause = interval(Duration::from_secs(1) / STEPS as u32);
        for part in batch.get(..sent).unwrap_or(batch).chunks(SLOWEST / STEPS) {
            if is_slow {
                pause.tick().await;
            }
            self.stream.write_all(part).await?;
        }
        Ok(())
    }
}
