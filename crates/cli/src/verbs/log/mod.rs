//! `tailwater log`: inspects, compacts, fills and benchmarks a message log.

mod import;

use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};
use tailwater_io::posix::PosixStorage;
use tailwater_log::inspect::{self, Finding, LogDirectory, Severity, VerifyReport};
use tailwater_log::{Consumer, ErrorKind, PartitionId};

use crate::answer;
use crate::arguments::{LogDumpArguments, LogPlace, LogVerb};
use crate::outcome::{Failure, Outcome, Result};
use crate::output::{Output, complain};
use crate::progress::Progress;
use crate::text::counted;

pub(crate) fn start(verb: &LogVerb) -> ExitCode {
    let text_or_json = |json| Output::new(json, false);
    let to_the_end = |json| text_or_json(json).outlasting_reader();
    match verb {
        LogVerb::Stat(it) => answer(text_or_json(it.json), |output| judged(stat(it, output))),
        LogVerb::Verify(it) => answer(to_the_end(it.json), |output| judged(verify(it, output))),
        LogVerb::Dump(it) => {
            answer(Output::new(it.json, it.hex), |output| judged(dump(it, output)))
        }
        LogVerb::Compact(it) => answer(to_the_end(it.json), |output| compact(it, output)),
        LogVerb::Import(it) => answer(to_the_end(it.json), |output| import::run(it, output)),
        LogVerb::Bench(it) => match tailwater_latency::log::run(it) {
            Ok(finished) => answer(text_or_json(false), |output| {
                output.write(finished.text.as_bytes())?;
                Ok(Outcome::Well)
            }),
            Err(failure) => {
                complain(&failure);
                ExitCode::FAILURE
            }
        },
    }
}

/// Returns the outcome of a verb that only reads. If another process changed the files whenever
/// they were read, it is not known whether they are damaged.
fn judged(outcome: Result<Outcome>) -> Result<Outcome> {
    match outcome {
        Err(Failure::Log(error)) if error.kind() == ErrorKind::Busy => {
            complain(&error);
            Ok(Outcome::BeingWritten)
        }
        outcome => outcome,
    }
}

fn read(directory: &std::path::Path) -> Result<LogDirectory> {
    Ok(LogDirectory::read(Arc::new(PosixStorage::new()), directory)?)
}

fn stat(arguments: &LogPlace, output: &mut Output) -> Result<Outcome> {
    let log = read(&arguments.directory)?;
    let mut partitions = Vec::new();
    for (id, incarnation) in log.partitions() {
        match partition_document(&log, id, incarnation) {
            Ok(document) => partitions.push(document),
            // Another process has deleted the partition since the catalog was read.
            Err(Failure::Log(error)) if error.kind() == ErrorKind::NotFound => {}
            Err(failure) => return Err(failure),
        }
    }
    if output.is_json() {
        output.json_document(&json!({
            "id": format!("{:032x}", log.id()),
            "streams": log.streams(),
            "partitions": partitions,
        }))?;
        return Ok(Outcome::Well);
    }
    output.field(0, "id", format_args!("{:032x}", log.id()))?;
    for (stream, info) in log.streams() {
        output.line(format_args!("stream {stream} '{}'", info.name))?;
        for (topic, info) in &info.topics {
            output.line(format_args!("  topic {topic} '{}'", info.name))?;
            output.field(4, "durability", info.options.durability.name())?;
            let of_topic = |document: &&Value| {
                document["stream"] == json!(stream) && document["topic"] == json!(topic)
            };
            for partition in partitions.iter().filter(of_topic) {
                output.line(format_args!("    partition {}", partition["partition"]))?;
                for name in ["start_offset", "end_offset", "segments", "bytes", "incarnation"] {
                    output.field(6, &name.replace('_', " "), &partition[name])?;
                }
                for consumer in partition["consumers"].as_array().into_iter().flatten() {
                    let who = format!("{} {}", text(&consumer["kind"]), consumer["id"]);
                    output.field(6, &who, &consumer["offset"])?;
                }
            }
        }
    }
    Ok(Outcome::Well)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Describes a partition, which had the given incarnation when the log's catalog was read.
fn partition_document(log: &LogDirectory, id: PartitionId, incarnation: u64) -> Result<Value> {
    let mut files = log.partition(id)?;
    let (start, end) = files.offsets()?;
    let segments: Vec<_> = files.segments().collect();
    // A purge ends an incarnation, and removes the stored offsets.
    let is_same = files.incarnation() == incarnation;
    let consumers: Vec<Value> = log
        .offsets(id)
        .filter(|_| is_same)
        .map(|(consumer, offset)| {
            let (kind, id) = match consumer {
                Consumer::Single(id) => ("consumer", id),
                Consumer::Group(id) => ("group", id),
            };
            json!({"kind": kind, "id": id, "offset": offset})
        })
        .collect();
    Ok(json!({
        "stream": id.stream,
        "topic": id.topic,
        "partition": id.partition,
        "incarnation": files.incarnation(),
        "start_offset": start,
        "end_offset": end,
        "segments": segments.len(),
        "bytes": segments.iter().map(|segment| segment.bytes).sum::<u64>(),
        "consumers": consumers,
    }))
}

fn verify(arguments: &LogPlace, output: &mut Output) -> Result<Outcome> {
    let log = read(&arguments.directory)?;
    let progress = Progress::counting("bytes");
    let report = log.verify(|bytes| progress.reach(bytes));
    drop(progress);
    let outcome = match report.findings.iter().map(|finding| finding.severity).max() {
        None | Some(Severity::Note) => Outcome::Well,
        Some(Severity::TornTail) => Outcome::TornTail,
        Some(Severity::BeingWritten) => Outcome::BeingWritten,
        Some(Severity::Damage) => Outcome::Damage,
    };
    if output.is_json() {
        output.json_document(&verify_document(&report, outcome))?;
        return Ok(outcome);
    }
    for Finding { severity, error, .. } in &report.findings {
        output.line(format_args!("{:13}  {error}", severity_name(*severity)))?;
    }
    let VerifyReport { partitions, segments, batches, messages, bytes, .. } = report;
    output.line(format_args!(
        "read: {} with {}, {} with {}; {bytes} bytes",
        counted(partitions, "partition", "partitions"),
        counted(segments, "segment", "segments"),
        counted(batches, "batch", "batches"),
        counted(messages, "message", "messages"),
    ))?;
    output.line(match outcome {
        Outcome::Well => "all is well",
        Outcome::TornTail => "all is well except for the end of a partition",
        Outcome::BeingWritten => "NOT VERIFIED: another process is writing it",
        _ => "DAMAGED",
    })?;
    Ok(outcome)
}

fn verify_document(report: &VerifyReport, outcome: Outcome) -> Value {
    let findings: Vec<Value> = report
        .findings
        .iter()
        .map(|Finding { severity, error, .. }| {
            json!({
                "severity": severity_name(*severity),
                "file": error.path().map(|path| path.display().to_string()),
                "offset": error.offset(),
                "message": error.to_string(),
            })
        })
        .collect();
    json!({
        "verdict": match outcome {
            Outcome::Well => "well",
            Outcome::TornTail => "torn_tail",
            Outcome::BeingWritten => "being_written",
            _ => "damage",
        },
        "findings": findings,
        "partitions": report.partitions,
        "segments": report.segments,
        "batches": report.batches,
        "messages": report.messages,
        "bytes": report.bytes,
    })
}

fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::TornTail => "torn_tail",
        Severity::BeingWritten => "being_written",
        Severity::Damage => "damage",
    }
}

fn dump(arguments: &LogDumpArguments, output: &mut Output) -> Result<Outcome> {
    let log = read(&arguments.directory)?;
    let id = find(&log, arguments)?;
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    let mut failure = Ok(());
    log.partition(id)?.visit(arguments.from, |header, messages| {
        for message in messages {
            let offset = header.base_offset + u64::from(message.offset_delta);
            if offset < arguments.from || left == 0 {
                continue;
            }
            left -= 1;
            let line = if output.is_json() {
                let user_headers = output.bytes(message.user_headers);
                let document = json!({
                    "offset": offset,
                    "timestamp_us": header.base_timestamp_us,
                    "origin_timestamp_us":
                        header.origin_timestamp_us + u64::from(message.timestamp_delta_us),
                    "id": message.id.to_string(),
                    "payload": output.bytes(message.payload),
                    "user_headers": user_headers,
                });
                output.json_line(&document)
            } else {
                let payload = output.bytes(message.payload);
                output.line(format_args!("{offset}\t{}\t{payload}", header.base_timestamp_us))
            };
            if line.is_err() {
                failure = line;
                return false;
            }
        }
        left > 0
    })?;
    failure.map(|()| Outcome::Well)
}

/// Finds the partition that the arguments identify: the stream and the topic by id or name, the
/// partition by id.
fn find(log: &LogDirectory, arguments: &LogDumpArguments) -> Result<PartitionId> {
    let is_named = |id: u32, name: &str, given: &str| given == name || given == id.to_string();
    let stream = log.streams().iter().find(|(id, it)| is_named(**id, &it.name, &arguments.stream));
    let (stream, info) =
        stream.ok_or_else(|| Failure::NotFound(format!("no stream '{}'", arguments.stream)))?;
    let topic = info.topics.iter().find(|(id, it)| is_named(**id, &it.name, &arguments.topic));
    let (topic, _) =
        topic.ok_or_else(|| Failure::NotFound(format!("no topic '{}'", arguments.topic)))?;
    Ok(PartitionId { stream: *stream, topic: *topic, partition: arguments.partition })
}

fn compact(arguments: &LogPlace, output: &mut Output) -> Result<Outcome> {
    let report = inspect::compact(Arc::new(PosixStorage::private()), &arguments.directory)?;
    let [before, after] = report.bytes;
    if output.is_json() {
        output.json_document(&json!({
            "segments": report.segments,
            "bytes_before": before,
            "bytes_after": after,
        }))?;
    } else {
        let segments = counted(report.segments, "segment", "segments");
        output.line(format_args!("{segments} rewritten: {before} bytes before, {after} after"))?;
    }
    Ok(Outcome::Well)
}
