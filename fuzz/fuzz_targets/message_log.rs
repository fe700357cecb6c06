//! The encodings of the message log. Checks that decoded values can be encoded and decode to the
//! same values, that a part of a batch (some of its messages, with a new header) is itself a valid
//! batch, and that walks over a segment and over a journal always move forward.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::message::batch::{Batch, Builder, Header, Part};
use tailwater_format::message::index::{self, ENTRY_BYTES, Entry, Seed};
use tailwater_format::message::journal::{Reader, put_record};
use tailwater_format::message::name::FileName;
use tailwater_format::message::padding::{Next, Trailer, batch_at};
use tailwater_format::message::tail::ChunkHeader;
use tailwater_fuzz::Choices;

fuzz_target!(|input: &[u8]| {
    let (mut choices, data) = Choices::split(input);
    let (offset, count) = (choices.number(8), choices.number(4) as u32);
    check_batch(data, offset, count);
    check_built(data, offset, count);
    check_walk(data);
    check_index(data);
    check_journal(data);
    check_small(data);
});

fn check_batch(data: &[u8], offset: u64, count: u32) {
    let Ok(batch) = Batch::decode(data) else { return };
    assert_eq!(batch.messages().count(), batch.header().count as usize);
    assert_eq!(Header::decode(&batch.header().encode()).as_ref(), Ok(batch.header()));
    if let Some(Part { header, messages }) = batch.part(batch.header().base_offset, count) {
        let whole = [&header.encode()[..], messages].concat();
        let part = Batch::decode(&whole).expect("a part of a batch is a batch");
        assert!(part.header().count <= count);
    }
    let _ = (batch.part(offset, count), batch.check_deltas(), batch.verify());
}

/// Builds a batch whose messages are pieces of `data`, and checks it and its parts.
fn check_built(data: &[u8], offset: u64, count: u32) {
    let mut builder = Builder::new(offset);
    for piece in data.chunks(17) {
        let (payload, headers) = piece.split_at(piece.len() / 2);
        builder.push(u128::from(offset), count, payload, headers).expect("a short message");
    }
    let bytes = builder.finish();
    let batch = Batch::decode_verified(&bytes).expect("a batch that was just built");
    batch.check_deltas().map_or_else(|_| assert!(data.is_empty()), |()| assert!(!data.is_empty()));
    let stamped = batch.stamped(3, offset, 5);
    let bytes = [&stamped.encode()[..], batch.message_bytes()].concat();
    let batch = Batch::decode_verified(&bytes).expect("a batch with its new header");
    if let Some(Part { header, messages }) = batch.part(offset, count) {
        let bytes = [&header.encode()[..], messages].concat();
        Batch::decode_verified(&bytes).expect("a part has valid checksums");
    }
}

fn check_walk(data: &[u8]) {
    let mut at = 0;
    while let Some(rest) = data.get(at..).filter(|rest| !rest.is_empty()) {
        let next = match batch_at(at as u64, rest) {
            Next::Gap(end) => end as usize,
            Next::Batch => match Batch::decode(rest) {
                Ok(batch) => at + batch.header().length as usize,
                Err(_) => break,
            },
        };
        assert!(next > at, "a walk goes forward");
        at = next;
    }
    if let Some(trailer) = Trailer::at_end_of(data) {
        assert!(data.ends_with(&trailer.encode()));
    }
}

fn check_index(data: &[u8]) {
    let seed = Seed::new(1, 2);
    let entries = index::decode(data, seed);
    assert!(entries.len() <= data.len() / ENTRY_BYTES);
    for (bytes, entry) in data.chunks_exact(ENTRY_BYTES).zip(&entries) {
        assert_eq!(bytes, entry.encode(seed));
    }
    if let [a, b, c, ..] = data {
        let entry = Entry { offset: (*a).into(), timestamp_us: (*b).into(), position: (*c).into() };
        assert_eq!(Entry::decode(&entry.encode(seed), seed), Some(entry));
    }
}

fn check_journal(data: &[u8]) {
    let mut reader = Reader::new(data);
    let records: Vec<&[u8]> = reader.by_ref().collect();
    let end = reader.offset();
    assert!(end <= data.len());
    if data.len() < 4096 {
        let _ = reader.has_record_behind();
    }
    let first = reader.next_number().unwrap_or(0).wrapping_sub(records.len() as u64);
    let mut written = Vec::new();
    for (number, record) in records.iter().enumerate() {
        put_record(&mut written, first.wrapping_add(number as u64), record)
            .expect("a short record");
    }
    assert_eq!(written, data[..end]);
}

fn check_small(data: &[u8]) {
    if let Ok(Some(header)) = ChunkHeader::decode(data) {
        assert_eq!(ChunkHeader::decode(&header.encode()), Ok(Some(header)));
    }
    if let Ok(text) = str::from_utf8(data)
        && let Some(name) = FileName::parse(text)
    {
        assert_eq!(name.to_string(), text);
    }
}
