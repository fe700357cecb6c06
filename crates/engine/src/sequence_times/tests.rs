//! Tests of sequence number samples. Some of the tests compare the samples with those that RocksDB
//! keeps for the same input.

use tailwater_format::table::sequence_times::{SequenceTime, decode, encode};

use super::{Limits, SAMPLES_PER_TABLE, SequenceTimes};

const NO_LIMITS: Limits = Limits { capacity: usize::MAX, window_s: u64::MAX };

fn of(pairs: &[(u64, u64)], limits: Limits) -> SequenceTimes {
    let mut times = SequenceTimes::new(limits);
    pairs.iter().for_each(|&(sequence, time_s)| times.sample(sequence, time_s));
    times
}

fn pairs(times: &SequenceTimes) -> Vec<(u64, u64)> {
    times.samples.iter().map(|sample| (sample.sequence, sample.time_s)).collect()
}

#[test]
fn a_time_maps_to_the_last_sequence_number_up_to_it() {
    let times = of(&[(10, 500), (20, 600), (30, 700)], NO_LIMITS);
    let at = [499, 500, 599, 600, 700, u64::MAX].map(|time_s| times.sequence_at(time_s));
    assert_eq!(at, [None, Some(10), Some(10), Some(20), Some(30), Some(30)]);
    assert_eq!(SequenceTimes::new(NO_LIMITS).sequence_at(u64::MAX), None);
}

#[test]
fn redundant_samples_are_merged() {
    // In the order of the assertions: nothing was written between two samples; two samples have the
    // same time; the clock was set back, but not before the first sample; the clock was set back to
    // before the first sample.
    assert_eq!(pairs(&of(&[(10, 500), (10, 600)], NO_LIMITS)), [(10, 500)]);
    assert_eq!(pairs(&of(&[(10, 500), (20, 500)], NO_LIMITS)), [(20, 500)]);
    let back = of(&[(10, 500), (20, 600), (30, 550)], NO_LIMITS);
    assert_eq!(pairs(&back), [(10, 500), (30, 550)]);
    assert_eq!(pairs(&of(&[(10, 500), (20, 600), (30, 400)], NO_LIMITS)), [(30, 400)]);
    // Neither a sample with sequence number 0 nor one with a lower sequence number than the sample
    // before it is kept.
    assert_eq!(pairs(&of(&[(0, 500), (20, 600), (10, 700)], NO_LIMITS)), [(20, 600)]);
}

#[test]
fn one_sample_older_than_the_window_is_kept() {
    let limits = Limits { capacity: 100, window_s: 100 };
    let mut times = of(&[(1, 100), (2, 150), (3, 190), (4, 260)], limits);
    assert_eq!(pairs(&times), [(2, 150), (3, 190), (4, 260)]);
    times.take_in([SequenceTime { sequence: 5, time_s: 280 }], 295);
    assert_eq!(pairs(&times), [(3, 190), (4, 260), (5, 280)]);
    times.take_in([], 10_000);
    assert_eq!(pairs(&times), [(5, 280)]);
}

#[test]
fn excess_samples_are_dropped_where_their_neighbours_are_closest() {
    let evenly: Vec<(u64, u64)> = (1..=9).map(|at| (at, at * 10)).collect();
    let limits = Limits { capacity: 8, window_s: u64::MAX };
    assert_eq!(of(&evenly, limits).samples.len(), 9);
    let mut times = of(&evenly, limits);
    times.sample(10, 100);
    let left = pairs(&times).into_iter().map(|(sequence, _)| sequence).collect::<Vec<_>>();
    assert_eq!(left, [1, 3, 5, 6, 7, 8, 9, 10]);
    times.set_limits(Limits { capacity: 3, window_s: u64::MAX });
    assert_eq!(times.samples.len(), 3);
    times.set_limits(Limits { capacity: 0, window_s: u64::MAX });
    assert!(times.samples.is_empty());
    times.sample(11, 200);
    assert!(times.samples.is_empty());
}

/// Results of RocksDB 11.9. For each case: the limits, the samples in the order of recording, the
/// samples that RocksDB kept, the samples that a table with a given range of sequence numbers
/// stores, and the highest sequence numbers that were written by given times.
const ROCKSDB: &str = include_str!("rocksdb.txt");

#[test]
fn samples_match_those_of_rocksdb() {
    let number = |text: &str| text.parse::<u64>().unwrap();
    let sample = |text: &str| {
        let (sequence, time_s) = text.split_once('@').unwrap();
        SequenceTime { sequence: number(sequence), time_s: number(time_s) }
    };
    let hex = |bytes: &[u8]| {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        if hex.is_empty() { "-".to_owned() } else { hex }
    };
    let (mut times, mut tables) = (SequenceTimes::new(NO_LIMITS), 0);
    for line in ROCKSDB.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["capacity", capacity, "window", window_s] => {
                let capacity = number(capacity) as usize;
                times = SequenceTimes::new(Limits { capacity, window_s: number(window_s) });
            }
            ["samples", ref samples @ ..] => {
                for SequenceTime { sequence, time_s } in samples.iter().map(|text| sample(text)) {
                    times.sample(sequence, time_s);
                }
            }
            ["taken", "in", now_s, ref samples @ ..] => {
                times.take_in(samples.iter().map(|text| sample(text)), number(now_s));
            }
            ["kept", expected] => {
                let mut kept = Vec::new();
                encode(&times.samples, &mut kept);
                assert_eq!(hex(&kept), expected);
            }
            ["table", range, expected] => {
                let (lowest, highest) = range.split_once("..").unwrap();
                let table = times.encode(number(lowest), number(highest));
                assert_eq!(hex(&table), expected, "{line}");
                tables += 1;
            }
            ["written", "by", ref answers @ ..] => {
                for (time_s, sequence) in answers.iter().map(|text| text.split_once('=').unwrap()) {
                    let found = times.sequence_at(number(time_s)).unwrap_or(0);
                    assert_eq!(found, number(sequence), "at {time_s}");
                }
            }
            _ => panic!("{line}"),
        }
    }
    assert_eq!(tables, 18);
}

#[test]
fn tables_keep_the_samples_for_their_sequence_numbers() {
    let times = of(&[(10, 500), (20, 600), (30, 700), (40, 800)], NO_LIMITS);
    let kept = |lowest, highest| {
        let samples = decode(&times.encode(lowest, highest)).unwrap();
        samples.iter().map(|sample| sample.sequence).collect::<Vec<_>>()
    };
    assert_eq!(kept(20, 30), [10, 20, 30]);
    assert_eq!(kept(21, 29), [20]);
    assert_eq!(kept(0, 9), []);
    assert_eq!(kept(41, 90), [40]);
    assert_eq!(kept(35, 15), [30]);
    let many: Vec<(u64, u64)> = (1..=500).map(|at| (at, at)).collect();
    let encoded = of(&many, NO_LIMITS).encode(1, 500);
    assert_eq!(decode(&encoded).unwrap().len(), SAMPLES_PER_TABLE);
}

#[test]
fn added_samples_may_be_in_any_order() {
    let mut times = of(&[(20, 600)], NO_LIMITS);
    let sample = |(sequence, time_s)| SequenceTime { sequence, time_s };
    times.take_in([(30, 700), (0, 1), (10, 500), (20, 650)].map(sample), 800);
    assert_eq!(pairs(&times), [(10, 500), (20, 600), (30, 700)]);
}

#[test]
fn sequence_numbers_can_be_spread_evenly_over_a_window() {
    let times = SequenceTimes::spread(100, 1000, 1990, NO_LIMITS);
    assert_eq!((pairs(&times)[0], pairs(&times)[1]), ((1, 1000), (2, 1010)));
    assert_eq!(pairs(&times)[99], (100, 1990));
    assert_eq!(times.samples.len(), 100);
    assert_eq!(pairs(&SequenceTimes::spread(100, 1000, 1000, NO_LIMITS)), [(100, 1000)]);
}
