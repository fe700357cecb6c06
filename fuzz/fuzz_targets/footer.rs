//! Footers of tables. Checks that a decoded footer can be encoded, and that the result decodes to
//! the same footer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::checksum::ChecksumType;
use tailwater_format::table::footer::FOOTER_LENGTH;
use tailwater_format::table::{BlockHandle, Footer};
use tailwater_fuzz::Choices;
use tailwater_fuzz_seeds::write_footer_checksum;

const MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
const MAGIC_AT: usize = 45;
const VERSION_AT: usize = 41;

fuzz_target!(|input: &[u8]| {
    let (mut choices, data) = Choices::split(input);
    let offset = choices.number(8);
    check(data, offset);
    let mut tail = data.to_vec();
    if let Some(footer) = tail.last_chunk_mut::<FOOTER_LENGTH>() {
        complete(
            footer,
            choices.byte(),
            offset.saturating_add((data.len() - FOOTER_LENGTH) as u64),
        );
        check(&tail, offset);
    }
    check_written(choices);
});

fn check(tail: &[u8], tail_offset: u64) {
    let Ok(footer) = Footer::decode(tail, tail_offset) else { return };
    let offset = tail_offset.saturating_add((tail.len() - FOOTER_LENGTH) as u64);
    let bytes = footer.encode(offset).expect("a decoded footer can be encoded");
    assert_eq!(Footer::decode(&bytes, offset), Ok(footer));
}

/// Writes fields into a footer, because the decoder would reject the footer early without them. The
/// fields are the magic number and a format version. For version 6 or later, the other fixed fields
/// and the checksum are written as well.
fn complete(footer: &mut [u8; FOOTER_LENGTH], version: u8, offset: u64) {
    let version = u32::from(version % 10);
    footer[VERSION_AT..MAGIC_AT].copy_from_slice(&version.to_le_bytes());
    footer[MAGIC_AT..].copy_from_slice(&MAGIC.to_le_bytes());
    if version >= 6 {
        footer[1..5].copy_from_slice(&[0x3e, 0, 0x7a, 0]);
    }
    write_footer_checksum(footer, offset);
}

/// Encodes a footer with arbitrary fields. If it can be encoded and decoded, checks that the result
/// is the same footer.
fn check_written(mut choices: Choices<'_>) {
    let handle = |choices: &mut Choices<'_>| BlockHandle {
        offset: choices.number(5),
        size: choices.number(3),
    };
    let metaindex = handle(&mut choices);
    let footer = Footer {
        format_version: u32::from(choices.byte() % 9),
        checksum_type: choices.of(&ChecksumType::ALL),
        base_context: choices.number(4) as u32,
        metaindex,
        index: choices.flag().then(|| handle(&mut choices)),
    };
    let offset = metaindex.end() + if choices.flag() { choices.number(2) } else { 0 };
    if let Ok(bytes) = footer.encode(offset)
        && let Ok(read) = Footer::decode(&bytes, offset)
    {
        assert_eq!(read, footer);
    }
}
