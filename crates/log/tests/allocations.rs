//! Checks that the number of allocations of an append or a poll does not depend on the number of
//! messages.

#[path = "../../engine/tests/common/counting.rs"]
mod counting;

use counting::allocations;
use tailwater_format::message::batch::Builder;
use tailwater_log::{Durability, Log, LogOptions, Strategy, TailMemory, TopicOptions};

fn batch(count: u64) -> Vec<u8> {
    let mut builder = Builder::new(0);
    for number in 0..count {
        builder.push(u128::from(number), 0, &[7; 100], b"").expect("a message");
    }
    builder.finish()
}

#[test]
fn appends_and_polls_allocate_for_no_message() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = LogOptions::new().with_tail_memory(TailMemory::Private);
    let log = Log::open(directory.path(), &options).expect("the log opens");
    let stream = log.create_stream(None, "s").expect("a stream");
    for durability in [Durability::Memory, Durability::Disk] {
        let options = TopicOptions::new().with_durability(durability);
        let name = durability.name();
        let topic = log.create_topic(stream, None, name, &options, 1).expect("a topic");
        let partition = log.partition(topic.partition(0)).expect("a partition");
        let mut all = Vec::new();
        for count in [1, 10, 100, 1000] {
            let bytes = batch(count);
            let _ = partition.append(&bytes).expect("an append").ticket.wait();
            let appends = 20;
            let (appending, _) = allocations(|| {
                for _ in 0..appends {
                    drop(partition.append(&bytes).expect("an append"));
                }
            });
            partition.flush(false).wait().expect("a flush");
            let offset = partition.stats().end_offset - count;
            let mut polled = 0;
            let (polling, _) = allocations(|| {
                let found = partition.poll_memory(Strategy::Offset(offset), count as u32);
                polled = found.expect("a poll").expect("a poll from memory").count;
            });
            assert_eq!(u64::from(polled), count);
            println!(
                "{name}: {count} messages: {} allocations an append, {polling} a poll",
                appending as f64 / f64::from(appends)
            );
            all.push((appending, polling));
        }
        // An append may allocate a chunk, a ticket and now and then a larger vector, but nothing
        // for each message.
        for (appending, polling) in &all {
            assert!(*appending <= 20 * 8, "{all:?}");
            assert!(*polling <= 4, "{all:?}");
        }
    }
    log.close().expect("the log closes");
}
