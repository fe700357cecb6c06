//! Block trailers. Checks that a written trailer passes verification, and that a damaged one does
//! not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::checksum::ChecksumType;
use tailwater_format::table::{BLOCK_TRAILER_LENGTH, BlockChecksum};
use tailwater_fuzz::Choices;

fuzz_target!(|input: &[u8]| {
    let (mut choices, data) = Choices::split(input);
    let checksum = BlockChecksum {
        checksum_type: choices.of(&ChecksumType::ALL),
        base_context: choices.number(4) as u32,
    };
    let offset = choices.number(8);
    if let Ok((block, kind)) = checksum.verify(offset, data) {
        assert_eq!(BlockChecksum::split(data), Ok((block, kind)));
        assert_eq!(checksum.trailer(offset, block, kind), data[block.len()..]);
    }

    let kind = choices.byte();
    let mut written = data.to_vec();
    written.extend_from_slice(&checksum.trailer(offset, data, kind));
    assert_eq!(checksum.verify(offset, &written), Ok((data, kind)));

    // A flipped bit must be detected at every position. With `ChecksumType::None`, only a flipped
    // bit in the checksum field must be detected.
    let place = choices.below(written.len());
    written[place] ^= 1 << choices.below(8);
    let covered = checksum.checksum_type != ChecksumType::None;
    if covered || place > written.len() - BLOCK_TRAILER_LENGTH {
        assert!(checksum.verify(offset, &written).is_err());
    }
});
