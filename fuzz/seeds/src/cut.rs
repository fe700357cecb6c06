//! Cuts the seeds of each fuzz target out of databases. A seed consists of choices (bytes that
//! select what the target does) and a part of a database.

use std::io;

use tailwater_format::block::IndexFormat;
use tailwater_format::file_name::FileKind;
use tailwater_format::record_log::{Event, RecordReader, SliceSource};
use tailwater_format::message::batch::Builder;
use tailwater_format::message::journal::put_record;
use tailwater_format::message::padding::{TRAILER_BYTES, Trailer};
use tailwater_format::table::footer::FOOTER_LENGTH;
use tailwater_format::varint::put_length_prefixed;
use tailwater_fuzz_seeds::{BlockRole, Files, Table, TableBlock, fragments, join};

use crate::Corpora;

/// Maximum length of the data in a seed, in bytes.
const LENGTH_MAX: usize = 40 << 10;
/// Maximum number of blocks of each kind taken from one table.
const BLOCKS_MAX: usize = 3;
/// Maximum number of records taken from one log.
const RECORDS_MAX: usize = 12;

/// Choices (bytes that select what a fuzz target does). Targets that test cursors interpret them as
/// these moves: to the first entry, forward, back, to a key, to the last entry, back. To other
/// targets, these bytes are arbitrary choices.
const MOVES: [u8; 24] =
    [0, 4, 4, 6, 4, 2, 3, b'k', b'e', b'y', 4, 6, 6, 1, 6, 6, 3, 2, b'k', b'1', 5, 1, 6, 0];

/// Adds seeds that contain no part of a database.
pub(super) fn without_database(corpora: &Corpora) -> io::Result<()> {
    let numbers: Vec<u8> = (0..=255).step_by(3).collect();
    for target in ["block_model", "index_model", "log_round_trip", "log_fragments", "compress"] {
        corpora.add(target, &join(&MOVES, &numbers))?;
        corpora.add(target, &join(&MOVES, b"\x04\x01\x06tail\x01\x03water\x00\x05block"))?;
        corpora.add(target, &numbers)?;
    }
    for batch in message_batches()? {
        corpora.add("message_log", &join(&MOVES, &batch))?;
    }
    for varint in [&b"\x00"[..], b"\xff\x01", b"\x80\x80\x80\x80\x10", &[0xff; 10]] {
        corpora.add("varint", &join(&MOVES, varint))?;
    }
    for edits in [&[][..], &[0; 6], &[1, 3, 0, 16, 0, 2, 0xff, 0xff], &numbers] {
        for target in ["database", "inspect", "iterator", "multi_get", "replay", "verify"] {
            for flags in [0, 1, 2, 5] {
                corpora.add(target, &join(&[&[flags], &MOVES[..]].concat(), edits))?;
            }
        }
    }
    for text in [
        "a=b;c={x=y;z={1:2}};d=;",
        "{{a=1;}}",
        "1:2:{a:b}",
        "bloomfilter:10:false",
        "{id=ribbonfilter:10.5;bloom_before_level=2;}",
    ] {
        corpora.add("option_string", text.as_bytes())?;
        corpora.add("options", text.as_bytes())?;
        corpora.add("filter", &join(&MOVES, text.as_bytes()))?;
    }
    // A wide-column entity of format version 1, and one of version 2.
    corpora.add("wide_column", b"\x01\x02\x00\x01\x01a\x02xyz")?;
    corpora.add("wide_column", b"\x02\x02\x02\x02\x01\x01\x11\x00\x01\x01\x02axyz")
}

/// Cuts the files of a database into the parts that individual targets read, and adds each part as
/// a seed of its target.
pub(super) fn database(corpora: &Corpora, files: &Files) -> io::Result<()> {
    for (name, bytes) in files {
        corpora.add("file_name", &join(&MOVES, name.as_bytes()))?;
        match FileKind::parse(name) {
            Some(FileKind::Table(_)) => table(corpora, bytes)?,
            Some(FileKind::Blob(_)) => blob_file(corpora, bytes)?,
            Some(FileKind::Wal(number)) => wal(corpora, bytes, number)?,
            Some(FileKind::Manifest(number)) => manifest(corpora, bytes, number)?,
            Some(FileKind::Options(_)) => options(corpora, bytes)?,
            Some(FileKind::Current) => corpora.add("file_name", &join(&MOVES, bytes))?,
            _ => {}
        }
    }
    Ok(())
}

fn table(corpora: &Corpora, file: &[u8]) -> io::Result<()> {
    let table = Table::parse(file).map_err(io::Error::other)?;
    let footer_at = file.len().saturating_sub(FOOTER_LENGTH);
    let offset_and_version = (footer_at as u64).to_le_bytes();
    corpora.add("footer", &join(&offset_and_version, &file[footer_at..]))?;
    corpora.add("unique_id", &join(&MOVES, &table.properties.db_session_id))?;
    for role in [
        BlockRole::Data,
        BlockRole::Index,
        BlockRole::Filter,
        BlockRole::FilterIndex,
        BlockRole::MetaIndex,
        BlockRole::Properties,
        BlockRole::Dictionary,
        BlockRole::OtherMeta,
    ] {
        let of_role = table.blocks.iter().filter(|block| block.role == role);
        for block in of_role.take(BLOCKS_MAX) {
            table_block(corpora, file, &table, block)?;
        }
    }
    Ok(())
}

fn table_block(
    corpora: &Corpora,
    file: &[u8],
    table: &Table,
    block: &TableBlock,
) -> io::Result<()> {
    let raw = table.raw(file, block.handle);
    let contents = table.contents(file, block.handle).map_err(io::Error::other)?;
    if contents.len() > LENGTH_MAX {
        return Ok(());
    }
    let mut place = vec![table.footer.checksum_type as u8];
    place.extend_from_slice(&table.footer.base_context.to_le_bytes());
    place.extend_from_slice(&block.handle.offset.to_le_bytes());
    corpora.add("block_trailer", &join(&place, raw))?;
    if let Some((stored, [kind, ..])) = raw.split_last_chunk::<5>()
        && *kind != 0
    {
        let mut choices = vec![*kind, 0];
        if let (BlockRole::Data, Some(dictionary)) = (block.role, table.dictionary()) {
            let dictionary = &dictionary[..dictionary.len().min(250)];
            choices = vec![*kind, 1, dictionary.len() as u8];
            choices.extend_from_slice(dictionary);
        }
        corpora.add("decompress", &join(&choices, stored))?;
    }
    match block.role {
        BlockRole::Data | BlockRole::OtherMeta => {
            corpora.add("block_cursor", &join(&MOVES, &contents))?;
            corpora.add("internal_key", &join(&MOVES, &contents[..contents.len().min(40)]))?;
            corpora.add("compress", &join(&MOVES, &contents))
        }
        BlockRole::Index | BlockRole::FilterIndex => {
            let IndexFormat { delta_values, first_keys } = table.index_format;
            let format = [u8::from(delta_values), u8::from(first_keys)];
            corpora.add("index_cursor", &join(&[&format, &MOVES[..]].concat(), &contents))
        }
        BlockRole::Filter => corpora.add("filter", &join(&MOVES, &contents)),
        BlockRole::MetaIndex | BlockRole::Properties => {
            corpora.add("block_cursor", &join(&MOVES, &contents))?;
            let from_block = [1, table.footer.format_version as u8];
            corpora.add("properties", &join(&from_block, &contents))
        }
        BlockRole::Dictionary => Ok(()),
    }
}

fn blob_file(corpora: &Corpora, file: &[u8]) -> io::Result<()> {
    let footer_at = file.len().saturating_sub(32);
    for part in [&file[..file.len().min(30)], &file[footer_at..]] {
        corpora.add("blob", &join(&MOVES, part))?;
    }
    corpora.add("blob", &join(&MOVES, &file[30..file.len().min(400)]))?;
    corpora.add("blob", &join(&MOVES, b"\x01\x07\x40\x80\x01\x04"))
}

/// Returns the payloads of a log's records.
fn records(log: &[u8], number: u64) -> Vec<Vec<u8>> {
    let mut reader = RecordReader::new(SliceSource::new(log), number);
    let mut records = Vec::new();
    loop {
        let Ok(event) = reader.next_event();
        match event {
            Event::Record(record) => records.push(record.payload.to_vec()),
            Event::End => return records,
            _ => {}
        }
    }
}

fn wal(corpora: &Corpora, log: &[u8], number: u64) -> io::Result<()> {
    let number_bytes = number.to_le_bytes();
    let start = &log[..log.len().min(LENGTH_MAX)];
    corpora.add("log_reader", &join(&number_bytes, start))?;
    for record in records(log, number).iter().take(RECORDS_MAX) {
        let short = &record[..record.len().min(LENGTH_MAX)];
        corpora.add("write_batch", short)?;
    }
    // The first fragments of the log, encoded as input bytes that make the fuzz target
    // `log_fragments` append the same fragments. Payloads are cut to 255 bytes.
    let mut spelled = number_bytes[..4].to_vec();
    for fragment in fragments(log) {
        let payload = &log[fragment.payload];
        let payload = &payload[..payload.len().min(255)];
        spelled.extend_from_slice(&[fragment.kind + 3, 0, payload.len() as u8]);
        spelled.extend_from_slice(payload);
        spelled.push(0);
        if spelled.len() > 600 {
            break;
        }
    }
    corpora.add("log_fragments", &spelled)
}

fn manifest(corpora: &Corpora, log: &[u8], number: u64) -> io::Result<()> {
    corpora.add("log_reader", &join(&number.to_le_bytes(), &log[..log.len().min(LENGTH_MAX)]))?;
    let records = records(log, number);
    let mut all = Vec::new();
    for record in &records {
        corpora.add("version_edit", record)?;
        put_length_prefixed(&mut all, record);
    }
    if all.len() <= LENGTH_MAX {
        corpora.add("manifest", &all)?;
    }
    Ok(())
}

fn options(corpora: &Corpora, text: &[u8]) -> io::Result<()> {
    for target in ["options", "options_document"] {
        corpora.add(target, &text[..text.len().min(LENGTH_MAX)])?;
    }
    let text = String::from_utf8_lossy(text);
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        corpora.add("options", format!("{}={value}", name.trim()).as_bytes())?;
        if value.contains(['{', ':', ';']) {
            corpora.add("option_string", value.trim().as_bytes())?;
        }
    }
    Ok(())
}

/// Returns seeds for the message log: a batch of messages; a batch followed by a gap with its
/// trailer, and another batch; and a journal.
fn message_batches() -> io::Result<Vec<Vec<u8>>> {
    let mut builder = Builder::new(7);
    for number in 0..3 {
        builder.push(number, 5, b"payload", b"headers").map_err(io::Error::other)?;
    }
    let batch = builder.finish();
    let mut padded = batch.clone();
    padded.resize(4096 - TRAILER_BYTES, 0);
    padded.extend_from_slice(&Trailer { stable: 1, segment: 2, incarnation: 3 }.encode());
    padded.extend_from_slice(&batch);
    let mut journal = Vec::new();
    for (number, record) in [(5, &b"snapshot"[..]), (6, b"change")] {
        put_record(&mut journal, number, record).map_err(io::Error::other)?;
    }
    Ok(vec![batch, padded, journal])
}
