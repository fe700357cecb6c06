//! Checks of the worked examples that come from write-ahead logs and MANIFESTs.

use tailwater_format::batch::{BatchReader, RecordKind, WriteBatch};
use tailwater_format::record_log::{Event, RecordReader, SliceSource, Writer};
use tailwater_format::version_edit::{NewFile, VersionEdit};

use super::document::Example;
use super::examples::{Answer, answer};
use super::fields::quoted;

/// The number of the write-ahead log in `tests/golden/tour`. Most examples in the document come
/// from this database.
const LOG_NUMBER: u64 = 8;

pub(crate) fn log_record(example: &Example) -> Answer {
    let mut reader = RecordReader::new(SliceSource::new(&example.bytes), LOG_NUMBER);
    let Ok(Event::Record(record)) = reader.next_event() else { panic!("no record") };
    let mut encoded = Vec::new();
    let mut writer = Writer::resume(LOG_NUMBER, false, example.offset as u64);
    writer.add_record(record.payload, &mut encoded).unwrap();
    answer(format!("a record of {} bytes", record.payload.len()), encoded)
}

pub(crate) fn log_predecessor(example: &Example) -> Answer {
    let mut reader = RecordReader::new(SliceSource::new(&example.bytes), LOG_NUMBER);
    let Ok(Event::Predecessor(log)) = reader.next_event() else { panic!("no predecessor") };
    let mut encoded = Vec::new();
    Writer::new(LOG_NUMBER, false).add_predecessor(log, &mut encoded);
    let (number, size, last) = (log.log_number, log.size, log.last_sequence);
    answer(format!("log {number}, {size} bytes, last sequence {last}"), encoded)
}

/// Checks an example that is a record in several fragments, because it crosses the end of a block.
pub(crate) fn log_fragments(example: &Example) -> Answer {
    let file = example.whole_file();
    let mut reader = RecordReader::new(SliceSource::new(&file), 0);
    let start = example.offset as u64;
    loop {
        let Ok(Event::Record(record)) = reader.next_event() else { panic!("no record") };
        if record.start == start {
            let mut encoded = Vec::new();
            let mut writer = Writer::resume(0, false, start);
            writer.add_record(record.payload, &mut encoded).unwrap();
            return answer(
                format!("a record from {start} to {}: {}", record.end, quoted(record.payload)),
                encoded,
            );
        }
    }
}

/// Checks an example that is the beginning of a log and ends inside the log's first record.
pub(crate) fn log_start(example: &Example) -> Answer {
    let file = example.whole_file();
    let number = example.fields.iter().find(|field| field.name == "log number").unwrap();
    let number = number.value.parse().unwrap();
    let mut reader = RecordReader::new(SliceSource::new(&file), number);
    let Ok(Event::Record(record)) = reader.next_event() else { panic!("no record") };
    let says = format!("a record of {} bytes begins at {}", record.payload.len(), record.start);
    let mut encoded = Vec::new();
    if record.start == 0 {
        Writer::new(number, true).add_record(record.payload, &mut encoded).unwrap();
        encoded.truncate(example.bytes.len());
        return answer(says, encoded);
    }
    // The compressed bytes of a record depend on the version of zstd. So only the bytes before the
    // first compressed record are compared.
    Writer::new_compressed(number, true, &mut encoded).unwrap();
    assert!(example.bytes.starts_with(&encoded));
    Answer { says: vec![says], encoded: None }
}

pub(crate) fn write_batch(example: &Example) -> Answer {
    let reader = BatchReader::new(&example.bytes).unwrap();
    let mut says =
        vec![format!("{} records from sequence {}", reader.record_count(), reader.sequence())];
    let mut batch = WriteBatch::new();
    batch.set_sequence(reader.sequence());
    for record in reader {
        let record = record.unwrap();
        let (family, key, value) = (record.column_family, record.key, record.value);
        match record.kind {
            RecordKind::Put => batch.put_cf(family, key, value).unwrap(),
            RecordKind::Delete => batch.delete_cf(family, key).unwrap(),
            other => panic!("{other:?} is not in the example"),
        }
        let mut line = format!("{:?} {}", record.kind, quoted(key));
        if record.kind == RecordKind::Put {
            line += &format!(" -> {}", quoted(value));
        }
        says.push(format!("{line}, column family {family}"));
    }
    Answer { says, encoded: Some(batch.data().to_vec()) }
}

pub(crate) fn version_edit(example: &Example) -> Answer {
    let edit = VersionEdit::decode(&example.bytes).unwrap();
    let mut encoded = Vec::new();
    edit.encode(&mut encoded).unwrap();
    Answer { says: describe(&edit), encoded: Some(encoded) }
}

/// Returns the fields of a version edit as text, one line per field.
fn describe(edit: &VersionEdit) -> Vec<String> {
    let mut says = Vec::new();
    let mut say = |what: &str, value: Option<String>| {
        says.extend(value.map(|value| format!("{what} {value}")));
    };
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    say("database id", edit.database_id.clone());
    say("comparator", edit.comparator.clone());
    say("log number", number(edit.log_number));
    say("previous log number", number(edit.previous_log_number));
    say("lowest log number to keep", number(edit.min_log_number_to_keep));
    say("next file number", number(edit.next_file_number));
    say("last sequence", number(edit.last_sequence));
    for file in &edit.new_files {
        say("new file", Some(describe_file(file)));
    }
    for file in &edit.blob_file_additions {
        let (count, bytes) = (file.blob_count, file.blob_bytes);
        say("blob file", Some(format!("{}: {count} blob of {bytes} bytes", file.number)));
    }
    for log in &edit.wal_additions {
        let synced = log.synced_size.map_or("begun".to_string(), |size| format!("{size} bytes"));
        say("log", Some(format!("{}: {synced}", log.log_number)));
    }
    say("logs deleted below", number(edit.wal_deletion));
    say("column family", Some(edit.column_family.to_string()));
    say("column family added,", edit.column_family_add.clone());
    say("timestamps stored", edit.persist_user_defined_timestamps.map(|yes| yes.to_string()));
    says
}

fn describe_file(file: &NewFile) -> String {
    let (number, level, size) = (file.number, file.level, file.size);
    let (epoch, tail) = (file.epoch_number, file.tail_size);
    format!("{number}: level {level}, {size} bytes, {tail} of them tail, epoch {epoch}")
}
