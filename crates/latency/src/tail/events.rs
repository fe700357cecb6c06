//! The flushes and compactions of a run, from the LOG of its database, which is read after the run.
//!
//! Tailwater writes a line when a flush or compaction has ended:
//! `2026/11/29-04:12:33.123456 INFO compacted tables of 'default' (LevelL0FilesNum): 4 in level 0
//! and 3 in level 1 into 7 in level 1, 29360128 bytes, in 310 ms`. RocksDB writes its events as
//! JSON, after the word `EVENT_LOG_v1`.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::experiment::timeline::Event;
use crate::files::read_text;

const DAY_US: u64 = 86_400_000_000;

/// Returns the flushes and compactions in a database's LOG that ended in the period of `length`
/// that began at the time `began_us`, in microseconds since 1970.
pub(super) fn events(directory: &Path, began_us: u64, length: Duration) -> Vec<Event> {
    parse(&read_text(&directory.join("LOG")).unwrap_or_default(), began_us, length)
}

fn parse(log: &str, began_us: u64, length: Duration) -> Vec<Event> {
    let mut flushes = HashMap::new();
    let mut found: Vec<Event> = log
        .lines()
        .filter_map(|line| match line.split_once("EVENT_LOG_v1 ") {
            Some((_, event)) => of_rocksdb(&serde_json::from_str(event).ok()?, &mut flushes),
            None => of_tailwater(line, began_us),
        })
        .filter_map(|Job { kind, begin_us, end_us, level, bytes }| {
            let since = |time_us: u64| time_us.checked_sub(began_us).map(|us| us as f64 / 1e6);
            let (begin_s, end_s) = (since(begin_us).unwrap_or(0.0), since(end_us)?);
            Some(Event { kind: kind.to_owned(), begin_s, end_s, level, bytes })
        })
        .collect();
    found.retain(|event| event.end_s <= length.as_secs_f64());
    found
}

/// A flush or compaction. Times are in microseconds since 1970.
struct Job {
    kind: &'static str,
    begin_us: u64,
    end_us: u64,
    level: u64,
    bytes: Option<u64>,
}

/// Parses a line of Tailwater's LOG. The line ends less than a day after `began_us`.
fn of_tailwater(line: &str, began_us: u64) -> Option<Job> {
    let (time, message) = line.split_once(" INFO ")?;
    let kind = match message.split_once(' ')?.0 {
        "flushed" => "flush",
        "compacted" => "compaction",
        _ => return None,
    };
    let (message, millis) = message.strip_suffix(" ms")?.rsplit_once(", in ")?;
    let (message, bytes) = message.strip_suffix(" bytes")?.rsplit_once(' ')?;
    let level = match message.rsplit_once(" in level ") {
        Some((_, level)) => level.trim_end_matches(',').parse().ok()?,
        None => 0,
    };
    let end_us = began_us + (time_of_day_us(time)? + DAY_US - began_us % DAY_US) % DAY_US;
    let begin_us = end_us.checked_sub(millis.parse::<u64>().ok()? * 1000)?;
    Some(Job { kind, begin_us, end_us, level, bytes: bytes.parse().ok() })
}

/// Parses the time of day in `2026/11/29-04:12:33.123456`.
fn time_of_day_us(time: &str) -> Option<u64> {
    let (_, time) = time.split_once('-')?;
    let mut parts = time.split([':', '.']).map(|part| part.parse::<u64>().ok());
    let mut part = || parts.next()?;
    let (hours, minutes, seconds, us) = (part()?, part()?, part()?, part()?);
    Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + us)
}

/// Converts an event of RocksDB. `flushes` has the times at which its flushes started, by job.
fn of_rocksdb(event: &Value, flushes: &mut HashMap<u64, (u64, Option<u64>)>) -> Option<Job> {
    let number = |name: &str| event[name].as_u64();
    let (job, end_us) = (number("job")?, number("time_micros")?);
    match event["event"].as_str()? {
        "flush_started" => {
            flushes.insert(job, (end_us, number("total_data_size")));
            None
        }
        "flush_finished" => {
            let (begin_us, bytes) = flushes.remove(&job)?;
            Some(Job { kind: "flush", begin_us, end_us, level: 0, bytes })
        }
        "compaction_finished" => Some(Job {
            kind: "compaction",
            begin_us: end_us.checked_sub(number("compaction_time_micros")?)?,
            end_us,
            level: number("output_level")?,
            bytes: number("total_output_size"),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-29, 23:59:58 UTC.
    const BEGAN_US: u64 = 1_795_996_798_000_000;

    fn event(kind: &str, begin_s: f64, end_s: f64, level: u64, bytes: u64) -> Event {
        Event { kind: kind.to_owned(), begin_s, end_s, level, bytes: Some(bytes) }
    }

    #[test]
    fn lines_of_both_engines_are_understood() {
        let log = "\
2026/11/29-23:59:57.900000 INFO flushed 9 entries of 'default' into table 7: 1 bytes, in 50 ms
2026/11/29-23:59:58.500000 INFO flushed 9 entries of 'default' into table 8: 4000 bytes, in 100 ms
2026/11/30-00:00:00.000000 INFO compacted tables of 'default' (Reason): 4 in level 0 and 1 in level 1 into 2 in level 1, 5000 bytes, in 3000 ms
2026/11/30-00:00:00.500000 INFO moved tables of 'default' (Reason): 1 in level 1 into 1 in level 2, 5 bytes, in 1 ms
2026/11/30-00:00:01.000000 INFO the write stall ended
2026/11/30-00:00:09.000000 INFO flushed 9 entries of 'default' into table 9: 4000 bytes, in 1 ms
";
        let flush = event("flush", 0.4, 0.5, 0, 4000);
        let compaction = event("compaction", 0.0, 2.0, 1, 5000);
        let expected = [flush, compaction];
        assert_eq!(parse(log, BEGAN_US, Duration::from_secs(5)), expected);

        let log = "\
x EVENT_LOG_v1 {\"time_micros\": 1795996798400000, \"job\": 2, \"event\": \"flush_started\", \"total_data_size\": 4000}
x EVENT_LOG_v1 {\"time_micros\": 1795996798500000, \"job\": 2, \"event\": \"flush_finished\", \"lsm_state\": [1]}
x EVENT_LOG_v1 {\"time_micros\": 1795996800000000, \"job\": 3, \"event\": \"compaction_finished\", \"compaction_time_micros\": 3000000, \"output_level\": 1, \"total_output_size\": 5000}
";
        assert_eq!(parse(log, BEGAN_US, Duration::from_secs(5)), expected);
    }
}
