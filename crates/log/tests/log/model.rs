//! Executes random commands on a partition on a simulated disk, in one thread, and compares the
//! partition with a model.

use crate::common::{Machine, Model, batch, check, messages, topic};
use tailwater_io::Clock as _;
use tailwater_log::{Durability, ErrorKind, Log, PartialBlocks, Partition, Strategy, TopicId};

const ROUNDS: usize = 60;
const STEPS: usize = 120;

fn draw_strategy(rng: &mut fastrand::Rng, model: &Model) -> (Strategy, u64) {
    match rng.u32(..4) {
        0 => (Strategy::First, model.start),
        1 => (Strategy::Last, 0),
        _ => {
            let offset = rng.u64(..=model.end() + 1);
            (Strategy::Offset(offset), offset.max(model.start))
        }
    }
}

#[test]
fn a_partition_agrees_with_a_model() {
    for seed in crate::common::rounds(ROUNDS) {
        eprintln!("round {seed}");
        Round::new(seed).run();
    }
}

struct Round {
    rng: fastrand::Rng,
    machine: Machine,
    log: Log,
    topic: TopicId,
    model: Model,
    number: u64,
    /// Time at which each message was appended, in microseconds since 1970, indexed by the number
    /// of the message.
    appended_us: Vec<u64>,
    /// Age at which messages expire, in microseconds; `None` if they do not expire.
    expiry_us: Option<u64>,
    options: String,
}

impl Round {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let machine = Machine::new(seed, rng.bool());
        let durability =
            [Durability::Memory, Durability::Process, Durability::Disk][rng.usize(..3)];
        let partial = if rng.bool() { PartialBlocks::Pad } else { PartialBlocks::Carry };
        if rng.u32(..4) == 0 {
            machine.storage.set_alignment(16_384);
        }
        let log = machine.open();
        let stream = log.create_stream(None, "stream").expect("a stream");
        let expiry_us = (rng.u32(..3) == 0).then(|| rng.u64(500_000..4_000_000));
        let options = topic(durability, partial).with_message_expiry_us(expiry_us);
        let topic = log.create_topic(stream, None, "topic", &options, 1).expect("a topic");
        let options = format!("{durability:?} {partial:?} expiry {expiry_us:?}");
        eprintln!("{options}, alignment {}", log.open_report().modes.block);
        Self {
            rng,
            machine,
            log,
            topic,
            model: Model::default(),
            number: 0,
            appended_us: Vec::new(),
            expiry_us,
            options,
        }
    }

    fn run(mut self) {
        for step in 0..STEPS {
            self.step();
            let what = format!("{} step {step}", self.options);
            if self.rng.u32(..8) == 0 {
                self.run_pending();
                let partition = self.log.partition(self.topic.partition(0)).expect("a partition");
                check(&partition, &self.model, &what);
            }
        }
        self.run_pending();
        self.log.close().expect("the log closes");
    }

    /// Runs the pending work, which includes retention. Checks that the messages that retention
    /// removed had expired, and removes them from the model.
    fn run_pending(&mut self) {
        self.log.run_pending();
        self.forget_expired();
    }

    fn forget_expired(&mut self) {
        let Some(expiry_us) = self.expiry_us else { return };
        let partition = self.log.partition(self.topic.partition(0)).expect("a partition");
        let start = partition.stats().start_offset;
        let now_us = self.machine.storage.clock().wall_us();
        while self.model.start < start {
            let number = self.model.numbers.pop_front().expect("a message that was removed");
            let age_us = now_us.saturating_sub(self.appended_us[number as usize]);
            assert!(age_us > expiry_us, "{} removed at the age of {age_us} us", self.options);
            self.model.start += 1;
        }
    }

    /// Runs retention. If the message that was appended last has expired, the partition must then
    /// be empty. Otherwise, older messages may stay. The expiry time of the message that was
    /// appended last decides even if a truncation has removed that message.
    fn retain(&mut self) {
        self.run_pending();
        let partition = self.log.partition(self.topic.partition(0)).expect("a partition");
        let ticket = partition.retain();
        self.run_pending();
        ticket.wait().expect("retention");
        if self.model.numbers.is_empty() {
            return;
        }
        let (Some(expiry_us), Some(newest_us)) = (self.expiry_us, self.appended_us.last()) else {
            return;
        };
        // Several batches at one time have increasing timestamps, so the newest may be in the
        // future.
        let age_us = self.machine.storage.clock().wall_us().saturating_sub(*newest_us);
        let is_persisted = partition.stats().unpersisted_messages == 0;
        assert!(!is_persisted || age_us <= expiry_us, "{} keeps an expired message", self.options);
    }

    fn step(&mut self) {
        let partition = self.log.partition(self.topic.partition(0)).expect("a partition");
        match self.rng.u32(..22) {
            0..9 => {
                let count = self.rng.u64(1..20);
                let length = match self.rng.u32(..10) {
                    0 => self.rng.usize(..20_000),
                    1 => 4096 - 304,
                    _ => self.rng.usize(..300),
                };
                let numbers = self.number..self.number + count;
                let appended = partition.try_append(&batch(numbers.clone(), length));
                let appended = match appended {
                    Err(error) if error.kind() == ErrorKind::Full => {
                        self.run_pending();
                        return;
                    }
                    appended => appended.expect("an append"),
                };
                assert_eq!(appended.base_offset, self.model.end());
                self.model.numbers.extend(numbers);
                self.number += count;
                self.appended_us.resize(self.number as usize, appended.timestamp_us);
                if self.rng.bool() {
                    self.run_pending();
                    appended.ticket.on_complete(|outcome| outcome.expect("a persisted batch"));
                }
            }
            9..13 => {
                self.run_pending();
                let (strategy, from) = draw_strategy(&mut self.rng, &self.model);
                let count = self.rng.u32(1..50);
                let polled = partition.poll(strategy, count).expect("a poll");
                let from = match strategy {
                    Strategy::Last => {
                        self.model.end().saturating_sub(u64::from(count)).max(self.model.start)
                    }
                    _ => from,
                };
                let found = messages(&polled);
                for (index, (offset, number)) in found.iter().enumerate() {
                    assert_eq!(*offset, from + index as u64, "{} {strategy:?}", self.options);
                    assert_eq!(Some(*number), self.model.at(*offset), "{}", self.options);
                }
                if from < self.model.end() {
                    assert!(!found.is_empty(), "{} {strategy:?} finds nothing", self.options);
                }
            }
            13 => {
                let ticket = partition.flush(self.rng.bool());
                self.run_pending();
                ticket.wait().expect("a flush");
                let stats = partition.stats();
                assert_eq!(stats.persisted_offset, stats.end_offset);
            }
            14 if self.rng.bool() => {
                self.log.purge_topic(self.topic).expect("a purge");
                self.model = Model::default();
            }
            15 => self.truncate(),
            16 => {
                self.run_pending();
                let ticket = partition.delete_segments(self.rng.usize(1..3), u64::MAX);
                self.log.run_pending();
                ticket.wait().expect("segments are deleted");
                let start = partition.stats().start_offset;
                while self.model.start < start {
                    self.model.numbers.pop_front();
                    self.model.start += 1;
                }
            }
            17 => {
                let clock = self.machine.storage.clock();
                clock.advance(self.rng.u64(..2_000_000_000));
                self.run_pending();
            }
            18 => {
                self.log.close().expect("the log closes");
                self.log = {
                    // The old log holds a lock on the directory, so it must be dropped before the
                    // log is opened again. In the meantime, `self.log` contains a log of another
                    // simulated machine.
                    let machine = self.machine.clone();
                    let closed = std::mem::replace(&mut self.log, Machine::new(0, false).open());
                    drop(closed);
                    machine.open()
                };
                let report = self.log.open_report();
                assert_eq!(report.partitions.len(), 0, "{report:?}");
            }
            19 => self.retain(),
            20 => self.queue_commands(&partition),
            _ => self.run_pending(),
        }
        self.forget_expired();
    }

    /// Queues several commands before any of them is executed. Each must succeed, and they must
    /// take effect in their order. No batch is appended after a purge or truncation, because the
    /// partition then refuses appends until that command is executed.
    fn queue_commands(&mut self, partition: &Partition) {
        self.run_pending();
        let mut tickets = Vec::new();
        let mut takes_appends = true;
        for _ in 0..self.rng.usize(2..6) {
            match self.rng.u32(..8) {
                0..3 if takes_appends => {
                    let numbers = self.number..self.number + 1;
                    let appended = partition.try_append(&batch(numbers.clone(), 100));
                    // The memory of tails may be full.
                    let Ok(appended) = appended else { continue };
                    assert_eq!(appended.base_offset, self.model.end());
                    self.model.numbers.extend(numbers);
                    self.number += 1;
                    self.appended_us.push(appended.timestamp_us);
                    tickets.push(("append", appended.ticket));
                }
                0..5 => tickets.push(("flush", partition.flush(self.rng.bool()))),
                5 => {
                    tickets.push(("purge", partition.purge()));
                    self.model = Model::default();
                    takes_appends = false;
                }
                // Retention may remove the message at which the truncation would begin.
                6 if self.expiry_us.is_none() => {
                    tickets.push(("truncation", partition.truncate(self.model.start)));
                    self.model.numbers.clear();
                    takes_appends = false;
                }
                _ => tickets.push(("retention", partition.retain())),
            }
        }
        self.log.run_pending();
        for (what, ticket) in tickets {
            ticket.wait().unwrap_or_else(|error| panic!("{}, {what}: {error}", self.options));
        }
        self.forget_expired();
        check(partition, &self.model, &self.options);
    }

    fn truncate(&mut self) {
        if self.model.numbers.is_empty() {
            return;
        }
        // Truncation runs the pending work, and retention with it. Running the work here first
        // updates the model's start, from which the offset below is chosen.
        self.run_pending();
        let offset = self.rng.u64(self.model.start..=self.model.end());
        match self.log.truncate(self.topic.partition(0), offset) {
            Ok(()) => self.model.numbers.truncate((offset - self.model.start) as usize),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                assert!(error.to_string().contains("inside a batch"), "{error}");
            }
        }
    }
}
