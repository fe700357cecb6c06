//! A proxy that discards messages. It shows the maximum rate at which a client can send on this
//! machine.
//!
//! `cargo run --release -p tailwater-server --example discard -- LISTEN SERVER` forwards the
//! requests of clients to a running server, except for batches of messages. The proxy discards a
//! batch, and itself replies that the batch was appended. The throughput of a client through the
//! proxy is therefore limited by the client alone.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use iggy_binary_protocol::consensus::{Command, ReplyHeader, RequestHeader, read_size_field};
use iggy_binary_protocol::responses::messages::send_messages::{
    SendMessagesConfirmationResponse, SendMessagesResponse,
};
use iggy_binary_protocol::{HEADER_SIZE, Operation, WireEncode};

/// Size of one read from a socket, in bytes.
const BUFFER_BYTES: usize = 256 << 10;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(listen), Some(server)) = (arguments.next(), arguments.next()) else {
        return Err("usage: discard LISTEN SERVER".into());
    };
    std::thread::scope(|scope| {
        for client in TcpListener::bind(listen)?.incoming() {
            let client = client?;
            let server = TcpStream::connect(&server)?;
            scope.spawn(move || {
                if let Err(error) = serve(client, server) {
                    eprintln!("a connection ended: {error}");
                }
            });
        }
        Ok(())
    })
}

/// Serves one connection until the client or the server closes it.
fn serve(mut client: TcpStream, mut server: TcpStream) -> Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let mut head = [0; HEADER_SIZE];
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        client.read_exact(&mut head)?;
        let header: RequestHeader = bytemuck::checked::try_pod_read_unaligned(&head)
            .map_err(|error| format!("a header is invalid: {error}"))?;
        if header.operation == Operation::SendMessages {
            pass_body(&head, &mut buffer, &mut client, &mut std::io::sink())?;
            client.write_all(&confirmation(&header))?;
            continue;
        }
        server.write_all(&head)?;
        pass_body(&head, &mut buffer, &mut client, &mut server)?;
        server.read_exact(&mut head)?;
        client.write_all(&head)?;
        pass_body(&head, &mut buffer, &mut server, &mut client)?;
    }
}

/// Copies the body of a frame from `from` to `to`. `head` is the header of the frame, which has
/// already been read.
fn pass_body(
    head: &[u8; HEADER_SIZE],
    buffer: &mut [u8],
    from: &mut TcpStream,
    to: &mut impl Write,
) -> Result<()> {
    let size = read_size_field(head).ok_or("a header has no size")? as usize;
    let mut left = size.saturating_sub(HEADER_SIZE);
    while left > 0 {
        let length = left.min(buffer.len());
        let read = from.read(&mut buffer[..length])?;
        if read == 0 {
            return Err("the connection was closed within a frame".into());
        }
        to.write_all(&buffer[..read])?;
        left -= read;
    }
    Ok(())
}

/// Returns the reply that the server would send to confirm a batch.
fn confirmation(request: &RequestHeader) -> Vec<u8> {
    let body = SendMessagesResponse {
        confirmations: vec![SendMessagesConfirmationResponse {
            stream_id: 0,
            topic_id: 0,
            partition_id: 0,
            base_offset: 0,
        }],
    }
    .to_bytes();
    let header = ReplyHeader {
        command: Command::Reply,
        size: (HEADER_SIZE + body.len()) as u32,
        request_checksum: request.request_checksum,
        client: request.client,
        op: request.session,
        request: request.request,
        operation: request.operation,
        ..ReplyHeader::default()
    };
    [bytemuck::bytes_of(&header), &body].concat()
}
