//! Produces messages, and consumes them in two sessions: the second one resumes where the first
//! stopped. Run it with `cargo run -p tailwater-log --example produce_consume`.

use tailwater_log::batch::Builder;
use tailwater_log::{Consumer, Log, LogOptions, PartitionId, Strategy, TopicOptions};

/// The consumer whose progress is stored.
const CONSUMER: Consumer = Consumer::Single(1);

#[cfg_attr(test, test)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let log = Log::open(directory.path(), &LogOptions::default())?;
    let stream = log.create_stream(None, "shop")?;
    let topic = log.create_topic(stream, None, "orders", &TopicOptions::default(), 1)?;
    let partition = log.partition(topic.partition(0))?;

    // The producer's time, in microseconds since 1970.
    let mut batch = Builder::new(1_700_000_000_000_000);
    for (id, order) in (1..).zip(["three apples", "a pear", "two plums"]) {
        // An id, the time since the batch's time in microseconds, the payload and user headers.
        batch.push(id, 0, order.as_bytes(), b"")?;
    }
    partition.append(&batch.finish())?.ticket.wait()?; // the batch survives the process

    consume(&log, partition.id(), 2)?; // three apples, a pear
    consume(&log, partition.id(), 2)?; // two plums
    Ok(log.close()?)
}

/// Prints up to `count` messages after those that were consumed before.
fn consume(log: &Log, id: PartitionId, count: u32) -> tailwater_log::Result<()> {
    let next = match log.offset(id, CONSUMER)? {
        Some(last) => Strategy::Offset(last + 1),
        None => Strategy::First,
    };
    let polled = log.partition(id)?.poll(next, count)?;
    for message in &polled {
        let message = message?;
        println!("{}: {}", message.offset, String::from_utf8_lossy(message.payload));
    }
    if let Some(last) = polled.last_polled_offset() {
        log.store_offset(id, CONSUMER, last)?.wait()?;
    }
    Ok(())
}
