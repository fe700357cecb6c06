//! Table properties, and the names of meta blocks. Checks that decoded values can be encoded, and
//! that the result decodes to the same values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::block::{Cursor, Layout};
use tailwater_format::table::Properties;
use tailwater_format::table::meta::MetaBlock;
use tailwater_format::varint::Reader;
use tailwater_fuzz::{Choices, allocation};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fuzz_target!(|input: &[u8]| {
    let (mut choices, data) = Choices::split(input);
    let entries = if choices.flag() { from_block(data) } else { from_pairs(data) };
    for (name, _) in &entries {
        if let Some(block) = MetaBlock::from_name(name) {
            assert_eq!(block.name().as_bytes(), name);
        }
    }
    let length = entries.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
    allocation::within(16 * length, || check(&entries, u32::from(choices.byte())));
});

/// Returns the entries of a properties block that can be read, up to the first error.
fn from_block(block: &[u8]) -> Entries {
    let mut entries = Entries::new();
    let Ok(layout) = Layout::parse(block) else { return entries };
    let mut cursor = Cursor::default();
    let mut moved = cursor.seek_to_first(block, &layout);
    let mut length = 0;
    while moved.is_ok() && cursor.valid() && length < 1 << 20 {
        length += cursor.key().len();
        entries.push((cursor.key().to_vec(), cursor.value(block).to_vec()));
        moved = cursor.next(block, &layout);
    }
    entries
}

/// Returns entries that consist of pairs of length-prefixed strings in `data`, sorted by name and
/// without duplicate names, like the entries of a block.
fn from_pairs(data: &[u8]) -> Entries {
    let mut reader = Reader::new(data);
    let mut entries = Entries::new();
    while let (Ok(name), Ok(value)) =
        (reader.length_prefixed("name"), reader.length_prefixed("value"))
    {
        entries.push((name.to_vec(), value.to_vec()));
    }
    entries.sort();
    entries.dedup_by(|a, b| a.0 == b.0);
    entries
}

fn check(entries: &Entries, format_version: u32) {
    let pairs = entries.iter().map(|(name, value)| (&name[..], &value[..]));
    let Ok(properties) = Properties::from_entries(pairs) else { return };
    let written = properties.to_entries();
    assert!(written.windows(2).all(|pair| pair[0].0 < pair[1].0));
    let pairs = written.iter().map(|(name, value)| (&name[..], &value[..]));
    let again = Properties::from_entries(pairs).expect("encoded properties can be decoded");
    assert_eq!(again, properties);

    // The result is ignored: the call must only return without a panic.
    let _ = properties.check_supported();
    if let Ok(used) = properties.compressions(format_version) {
        assert!(used.len() <= properties.compression_name.len().max(16));
    }
}
