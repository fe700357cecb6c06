//! Checks the state of a log after power cuts: the application's records in the catalog, the
//! streams and topics to which these records belong, and the acknowledged messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailwater_io::shared_memory::SimSharedMemory;
use tailwater_log::{Durability, Log, PartialBlocks, TopicId};

use crate::common::{DIRECTORY, Machine, batch, read_all, rounds, topic};

/// The part of a log's state that the test compares: the records of the log's catalog, and the
/// number of messages in each topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct State {
    records: BTreeMap<String, String>,
    /// Number of messages in the only partition of each topic, by the ids of the stream and the
    /// topic.
    topics: BTreeMap<(u32, u32), u64>,
}

fn state(log: &Log) -> State {
    let mut topics = BTreeMap::new();
    for (stream, info) in log.streams() {
        for id in info.topics.keys() {
            let partition = TopicId { stream, topic: *id }.partition(0);
            let partition = log.partition(partition).expect("a partition");
            topics.insert((stream, *id), read_all(&partition).len() as u64);
        }
    }
    State { records: log.records(""), topics }
}

/// Makes one random change to the log. The change is durable when the function returns.
fn step(log: &Log, rng: &mut fastrand::Rng, number: u64) {
    let topics: Vec<TopicId> = log
        .streams()
        .into_iter()
        .flat_map(|(stream, info)| {
            info.topics.into_keys().map(move |topic| TopicId { stream, topic })
        })
        .collect();
    let some = (!topics.is_empty()).then(|| topics[rng.usize(..topics.len())]);
    match (rng.u32(..8), some) {
        (0, _) => {
            let options = topic(Durability::Disk, PartialBlocks::Pad);
            log.create_topic(0, None, &format!("t{number}"), &options, 1).expect("a topic");
        }
        (1, Some(id)) => {
            log.delete_topic(id).expect("a deletion");
            log.run_pending();
        }
        (2..=4, Some(id)) => {
            let partition = log.partition(id.partition(0)).expect("a partition");
            let appended = partition.append(&batch(number..number + 1, 100)).expect("an append");
            log.run_pending();
            let flushed = partition.flush(true);
            log.run_pending();
            flushed.wait().expect("a flush");
            appended.ticket.wait().expect("an acknowledgement");
        }
        (kind, id) => {
            // One call changes several records atomically: one of a topic, and two that belong to
            // neither a stream nor a topic.
            let mut changes =
                vec![(format!("user/{}", rng.u32(..4)), Some(format!("value {number}")))];
            if let Some(TopicId { stream, topic }) = id {
                let key = format!("stream/{stream}/topic/{topic}/group/{}", rng.u32(..3));
                changes.push((key, (kind != 5).then(|| format!("group {number}"))));
            }
            changes.push(("last".to_owned(), Some(number.to_string())));
            log.set_records(&changes).expect("records");
        }
    }
}

#[test]
fn records_survive_power_cuts_together_with_their_stream_or_topic() {
    for seed in rounds(12) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let machine = Machine::new(seed, false);
        let log = machine.open();
        log.create_stream(Some(0), "s").expect("a stream");
        machine.storage.start_recording();
        let calls = || machine.storage.call_count();
        let mut states = vec![(calls(), state(&log))];
        for number in 0..40 {
            step(&log, &mut rng, number);
            states.push((calls(), state(&log)));
        }
        let mut replay = machine.storage.replay();
        let mut call = states[0].0;
        let last = calls();
        while call <= last {
            replay.advance_to(call);
            let memory = Some(SimSharedMemory::new(1 << 30));
            let storage = Arc::new(replay.crash_image(seed ^ call));
            let crashed = Machine { storage, memory, boot: 2 };
            let found = Log::open(DIRECTORY, &crashed.options()).expect("the log opens");
            let found = state(&found);
            // The log must contain the effects of all steps that were completed before the
            // simulated crash at storage call `call`. It must contain the effect of the step in
            // progress completely or not at all.
            let done = states.iter().rposition(|(done, _)| *done <= call).expect("the first");
            let next = states.get(done + 1).unwrap_or(&states[done]);
            assert!(
                found == states[done].1 || found == next.1,
                "seed {seed}, call {call}, step {done}: {found:?}\nis neither {:?}\nnor {:?}",
                states[done].1,
                next.1
            );
            call += rng.u64(1..=5);
        }
    }
}

#[test]
fn records_are_deleted_with_their_topic_or_stream() {
    let machine = Machine::new(1, false);
    let log = machine.open();
    for name in ["a", "b"] {
        let stream = log.create_stream(None, name).expect("a stream");
        let options = topic(Durability::Disk, PartialBlocks::Pad);
        for name in ["one", "two"] {
            let id = log.create_topic(stream, None, name, &options, 1).expect("a topic");
            let key = format!("stream/{stream}/topic/{}/group/0", id.topic);
            log.set_records(&[(key, Some("g".to_owned()))]).expect("a record");
        }
    }
    log.set_records(&[("user/0".to_owned(), Some("u".to_owned()))]).expect("a record");
    log.delete_topic(TopicId { stream: 0, topic: 0 }).expect("a deletion");
    log.delete_stream(1).expect("a deletion");
    log.run_pending();
    let keys: Vec<String> = log.records("").into_keys().collect();
    assert_eq!(keys, ["stream/0/topic/1/group/0", "user/0"]);
    assert_eq!(log.records("user/").len(), 1);
    assert!(log.records("users").is_empty());
}
