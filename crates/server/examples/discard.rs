//! A proxy that discards messages, to find how fast a client can send on this machine.
//!
//! `cargo run --release -p tailwater-server --example discard -- LISTEN SERVER` forwards what
//! clients send to a running server, except batches of messages: it reads and drops these and
//! confirms them itself. A client's throughput through it is the client's own limit.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use iggy_binary_protocol::consensus::{Command, ReplyHeader, RequestHeader, read_size_field};
use iggy_binary_protocol::responses::messages::send_messages::{
    SendMessagesConfirmationResponse, SendMessagesResponse,
};
use iggy_binary_protocol::{HEADER_SIZE, Operation, WireEncode};

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

/// Serves one connection until either side closes it.
fn serve(mut client: TcpStream, mut server: TcpStream) -> Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let mut frame = Vec::new();
    loop {
        read_frame(&mut client, &mut frame)?;
        let header: RequestHeader = bytemuck::checked::try_pod_read_unaligned(&frame[..HEADER_SIZE])
            .map_err(|error| format!("a header is invalid: {error}"))?;
        if header.operation == Operation::SendMessages {
            client.write_all(&confirmation(&header))?;
            continue;
        }
        server.write_all(&frame)?;
        read_frame(&mut server, &mut frame)?;
        client.write_all(&frame)?;
    }
}

/// Reads a frame, header and body.
fn read_frame(stream: &mut TcpStream, frame: &mut Vec<u8>) -> Result<()> {
    frame.resize(HEADER_SIZE, 0);
    stream.read_exact(frame)?;
    let head: &[u8; HEADER_SIZE] = frame.as_slice().try_into()?;
    let size = read_size_field(head).ok_or("a header has no size")? as usize;
    frame.resize(size.max(HEADER_SIZE), 0);
    stream.read_exact(&mut frame[HEADER_SIZE..])?;
    Ok(())
}

/// Returns the reply to a batch that was appended.
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
