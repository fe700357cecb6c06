//! Measures how a crowd affects a server and its other clients. A crowd is a large number of idle
//! connections, of partitions that receive messages, or of misbehaving connections.
//!
//! `cargo run --release -p tailwater-server --example crowd -- ADDRESS PID` connects to a running
//! server as its root user `iggy`. One client sends and polls a message of 100 bytes at a fixed
//! rate: first without a crowd, and then with each crowd. Each row of the table shows the resident
//! memory of the server's process and percentiles of the latencies of these calls. A latency is
//! measured from the time at which the call was scheduled to start, so that a late start counts as
//! latency.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use iggy::prelude::*;
use iggy_binary_protocol::consensus::{Command, RequestHeader};
use iggy_binary_protocol::requests::users::LoginRegisterRequest;
use iggy_binary_protocol::{
    ClientVersionInfo, HEADER_SIZE, IGGY_PROTOCOL_VERSION, Operation, WireEncode, WireName,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// Number of idle connections, all of them logged in.
const IDLE: usize = 10_000;
/// Number of partitions that receive messages.
const PARTITIONS: u32 = 1_000;
/// Number of misbehaving connections, one third for each kind of misbehaviour.
const MISBEHAVING: usize = 100;
/// Number of measured calls per row.
const CALLS: u32 = 5_000;
/// Interval between the scheduled starts of two measured calls.
const INTERVAL: Duration = Duration::from_millis(2);
/// Offset of the field with the size of the frame, in the header of a frame, in bytes.
const SIZE_OFFSET: usize = 48;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(process)) = (arguments.next(), arguments.next()) else {
        return Err("usage: crowd ADDRESS PID".into());
    };
    let address: SocketAddr = address.parse()?;
    let client = connect(address).await?;
    let _ = client.delete_stream(&name("crowd")).await;
    client.create_stream("crowd").await?;
    create_topic(&client, "probe", 1).await?;

    println!("| | resident, MiB | p50 us | p99 us | p99.9 us | max ms |");
    println!("|---|---:|---:|---:|---:|---:|");
    measure("nothing else", &client, &process).await?;

    let begun = Instant::now();
    let idle = connect_idle(address).await?;
    let row = format!("{} idle connections, logged in within {:.1?}", idle.len(), begun.elapsed());
    measure(&row, &client, &process).await?;
    drop(idle);
    tokio::time::sleep(Duration::from_secs(2)).await;
    measure("after they were closed", &client, &process).await?;

    create_topic(&client, "many", PARTITIONS).await?;
    let busy = connect(address).await?;
    let sending = tokio::spawn(send_by_turns(busy));
    measure(&format!("{PARTITIONS} partitions that receive messages in turn"), &client, &process)
        .await?;
    sending.abort();

    let mut misbehaving = JoinSet::new();
    for number in 0..MISBEHAVING {
        misbehaving.spawn(misbehave(address, number));
    }
    let row = format!("{MISBEHAVING} connections that send garbage, a byte a second, or nothing");
    measure(&row, &client, &process).await?;
    misbehaving.abort_all();
    client.delete_stream(&name("crowd")).await?;
    Ok(())
}

fn name(text: &str) -> Identifier {
    text.try_into().expect("a short name")
}

async fn connect(address: SocketAddr) -> Result<IggyClient> {
    let url = format!("iggy+tcp://iggy:iggy@{address}?nodelay=true");
    let client = IggyClient::from_connection_string(&url)?;
    client.connect().await?;
    Ok(client)
}

async fn create_topic(client: &IggyClient, topic: &str, partitions: u32) -> Result<()> {
    let options =
        TopicCreateOptions { partitions_count: Some(partitions), ..TopicCreateOptions::default() };
    client.create_topic(&name("crowd"), topic, &options).await?;
    Ok(())
}

async fn send(client: &IggyClient, topic: &str, partition: u32) -> Result<()> {
    let payload = vec![b'x'; 100];
    let mut messages = [IggyMessage::builder().payload(payload.into()).build()?];
    let partitioning = Partitioning::partition_id(partition);
    client.send_messages(&name("crowd"), &name(topic), &partitioning, &mut messages).await?;
    Ok(())
}

/// Sends messages to all partitions in turn, indefinitely.
async fn send_by_turns(client: IggyClient) -> Result<Infallible> {
    loop {
        for partition in 0..PARTITIONS {
            send(&client, "many", partition).await?;
        }
    }
}

/// Measures [`CALLS`] sends and polls, and prints a row of the table.
async fn measure(row: &str, client: &IggyClient, process: &str) -> Result<()> {
    let mut latency = Histogram::<u64>::new(3)?;
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let consumer = Consumer::new(name("probe"));
    for _ in 0..CALLS {
        let due = ticks.tick().await;
        send(client, "probe", 0).await?;
        let strategy = PollingStrategy::last();
        client
            .poll_messages(&name("crowd"), &name("probe"), Some(0), &consumer, &strategy, 1, false)
            .await?;
        latency.record(due.elapsed().as_micros() as u64)?;
    }
    let at = |quantile| latency.value_at_quantile(quantile);
    println!(
        "| {row} | {} | {} | {} | {} | {:.1} |",
        resident_mib(process)?,
        at(0.5),
        at(0.99),
        at(0.999),
        latency.max() as f64 / 1e3
    );
    Ok(())
}

/// Returns the resident memory of a process, in MiB.
fn resident_mib(process: &str) -> Result<u64> {
    #[expect(clippy::disallowed_methods, reason = "reads procfs, not storage")]
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).ok_or("no VmRSS")?;
    Ok(kib.parse::<u64>()? / 1024)
}

/// Opens connections and logs in on all of them concurrently.
async fn connect_idle(address: SocketAddr) -> Result<Vec<TcpStream>> {
    let mut logins = JoinSet::new();
    for number in 0..IDLE {
        logins.spawn(async move { login(address, number as u128 + 1).await });
    }
    let mut streams = Vec::with_capacity(IDLE);
    while let Some(login) = logins.join_next().await {
        streams.push(login??);
    }
    Ok(streams)
}

async fn login(address: SocketAddr, client: u128) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    let request = LoginRegisterRequest {
        version_info: ClientVersionInfo {
            protocol_version: IGGY_PROTOCOL_VERSION,
            sdk_name: WireName::new("crowd")?,
            sdk_version: WireName::new("1")?,
        },
        username: WireName::new("iggy")?,
        password: "iggy".to_owned().into(),
        client_context: None,
    };
    let body = request.to_bytes();
    let header = RequestHeader {
        command: Command::Request,
        operation: Operation::Register,
        size: (HEADER_SIZE + body.len()) as u32,
        client,
        ..RequestHeader::default()
    };
    stream.write_all(&[bytemuck::bytes_of(&header), &body].concat()).await?;
    let mut header = [0; HEADER_SIZE];
    stream.read_exact(&mut header).await?;
    let size = header.get(SIZE_OFFSET..SIZE_OFFSET + 4).ok_or("no size")?;
    let mut body = vec![0; u32::from_le_bytes(size.try_into()?) as usize - HEADER_SIZE];
    stream.read_exact(&mut body).await?;
    if header[60] == Command::Reply as u8 && !body.is_empty() {
        Ok(stream)
    } else {
        Err("the login was refused".into())
    }
}

/// Misbehaves on a connection: depending on `number`, sends garbage, sends one byte per second, or
/// sends nothing. Connects again after each disconnect.
async fn misbehave(address: SocketAddr, number: usize) {
    loop {
        let Ok(mut stream) = TcpStream::connect(address).await else { continue };
        let mut byte = [0];
        match number % 3 {
            0 => {
                let garbage = [0xa5; 4096];
                while stream.write_all(&garbage).await.is_ok() {}
            }
            1 => {
                while stream.write_all(&[0]).await.is_ok() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            _ => {
                let _ = stream.read(&mut byte).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
