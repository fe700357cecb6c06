//! Produces two messages and consumes them. Run it with
//! `cargo run -p tailwater-log --example produce_consume`.

use tailwater_log::batch::Builder;
use tailwater_log::{Consumer, Log, LogOptions, Strategy, TopicOptions};

#[cfg_attr(test, test)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let log = Log::open(directory.path(), &LogOptions::default())?;
    let stream = log.create_stream(None, "shop")?;
    let topic = log.create_topic(stream, None, "orders", &TopicOptions::default(), 1)?;
    let partition = log.partition(topic.partition(0))?;

    let mut batch = Builder::new(0);
    batch.push(1, 0, b"three apples", b"")?;
    batch.push(2, 0, b"a pear", b"")?;
    partition.append(&batch.finish())?.ticket.wait()?; // the batch survives the process

    let polled = partition.poll(Strategy::First, 10)?;
    for message in &polled {
        let message = message?;
        println!("{}: {}", message.offset, String::from_utf8_lossy(message.payload));
    }
    let done = polled.end_offset() - 1;
    log.store_offset(partition.id(), Consumer::Single(1), done)?.wait()?;
    Ok(log.close()?)
}
