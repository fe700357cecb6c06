//! A message log for Linux. Appends do not wait for the disk unless the requested durability
//! requires it, and a topic's durability states which failures an acknowledged append survives.
//!
//! Streams contain topics, topics contain partitions, and a partition is a sequence of messages
//! that grows at its end and can be read from any offset. Batches have the layout of Apache Iggy's
//! protocol, in memory and on disk.
//!
//! ```
//! use tailwater_log::batch::Builder;
//! use tailwater_log::{Log, LogOptions, Strategy, TopicOptions};
//!
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path();
//! let log = Log::open(directory, &LogOptions::default())?;
//! let stream = log.create_stream(None, "shop")?;
//! let topic = log.create_topic(stream, None, "orders", &TopicOptions::default(), 1)?;
//! let partition = log.partition(topic.partition(0))?;
//!
//! // The producer's time, in microseconds since 1970. Each message has an id, a time after the
//! // batch's, a payload and user headers.
//! let mut batch = Builder::new(1_700_000_000_000_000);
//! batch.push(1, 0, b"three apples", b"")?;
//! batch.push(2, 0, b"a pear", b"")?;
//! let appended = partition.append(&batch.finish())?;
//! appended.ticket.wait()?; // the batch survives the process
//!
//! let polled = partition.poll(Strategy::Offset(1), 10)?;
//! let message = polled.messages().next().expect("a message")?;
//! assert_eq!((message.offset, message.payload), (1, &b"a pear"[..]));
//! log.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The example `produce_consume` also stores a consumer's progress and resumes there.
//!
//! # Durability
//!
//! A topic's [`Durability`] states what an acknowledged append survives: nothing, a crash of the
//! process, or a power cut. An append copies its batch once, into the tail, which holds recent
//! batches in memory. Threads called persisters write batches from the tail to segment files, by
//! default with direct I/O. An append is acknowledged after that write only if the durability
//! requires it.
//!
//! # Threads
//!
//! The API is synchronous and needs no async runtime. An append returns a [`Ticket`] without
//! waiting for its acknowledgement. The caller can wait for the ticket, await it as a future, or
//! register a function that is called when the append is acknowledged or has failed.

mod backpressure;
mod catalog;
mod env;
mod error;
mod guard;
mod identity;
pub mod inspect;
mod journal;
mod last_opening;
mod layout;
mod log;
mod offsets;
mod options;
mod panics;
mod partition;
mod patience;
mod scheduler;
mod segment;
pub mod storage;
mod sync;
mod tail;
mod ticket;
mod timestamps;
mod workers;

pub use catalog::{CatalogSnapshot, PartitionId, PartitionInfo, StreamInfo, TopicId, TopicInfo};
pub use error::{Error, ErrorKind, Result};
pub use log::{Log, Modes, OpenReport};
pub use offsets::Consumer;
pub use options::{Durability, IoModeChoice, LogOptions, PartialBlocks, TailMemory, TopicOptions};
pub use partition::{
    Appended, Partition, PartitionStats, Piece, Polled, PolledMessage, PolledMessages, Recovered,
    StoredBatch, Strategy, VerifiedBatch,
};
pub use storage::{Clock, DescriptorBudget, SharedMemory, Storage};
pub use ticket::Ticket;

#[doc(inline)]
pub use tailwater_format::message::batch;
