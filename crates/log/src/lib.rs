//! A message log that persists outside the append path and states what each acknowledgement
//! survives.
//!
//! Streams contain topics, topics contain partitions, and a partition is a sequence of messages
//! that grows at its end and can be read from any offset. Batches have the layout of Apache Iggy's
//! protocol, in memory and on disk.
//!
//! ```
//! use tailwater_format::message::batch::{Batch, Builder};
//! use tailwater_log::{Log, LogOptions, Strategy, TopicOptions};
//!
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path();
//! let log = Log::open(directory, &LogOptions::default())?;
//! let stream = log.create_stream(None, "shop")?;
//! let topic = log.create_topic(stream, None, "orders", &TopicOptions::default(), 1)?;
//! let partition = log.partition(topic.partition(0))?;
//!
//! let mut batch = Builder::new(0);
//! batch.push(1, 0, b"three apples", b"")?;
//! batch.push(2, 0, b"a pear", b"")?;
//! let appended = partition.append(&batch.finish())?;
//! appended.ticket.wait()?; // the batch survives the process
//!
//! let polled = partition.poll(Strategy::Offset(1), 10)?.to_vec();
//! let message = Batch::decode(&polled)?.messages().next().expect("a message");
//! assert_eq!(message.payload, b"a pear");
//! log.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Durability
//!
//! A topic's [`Durability`] states what an acknowledged append survives: nothing, the death of the
//! process, or a power cut. Batches are copied once, into the tail (recent data in memory). Threads
//! called persisters write them from the tail to segments in direct mode. An acknowledgement waits
//! for that write only if the durability requires it.
//!
//! # Threads
//!
//! The API is synchronous and needs no runtime. An append returns immediately with a [`Ticket`]. A
//! caller can wait for the ticket, or register a function that is called when the append completes.

mod backpressure;
mod catalog;
mod env;
mod error;
mod identity;
pub mod inspect;
mod journal;
mod layout;
mod log;
mod offsets;
mod options;
mod panics;
mod partition;
mod scheduler;
mod segment;
mod sync;
mod tail;
mod ticket;

pub use catalog::{CatalogSnapshot, PartitionId, PartitionInfo, StreamInfo, TopicId, TopicInfo};
pub use error::{Error, ErrorKind, Result};
pub use log::{Log, Modes, OpenReport};
pub use offsets::Consumer;
pub use options::{Durability, IoModeChoice, LogOptions, PartialBlocks, TailMemory, TopicOptions};
pub use partition::{
    Appended, Partition, PartitionStats, Piece, Polled, Recovered, Strategy, VerifiedBatch,
};
pub use ticket::Ticket;
