//! Varints. Checks that the decoders for 32 and 64 bits agree, and that a decoded value encodes to
//! the same bytes, unless the decoded encoding was longer than necessary.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::varint::{
    MAX_VARINT64_LENGTH, Reader, decode_varint32, decode_varint64, put_varint64, put_varsigned64,
    varint_length,
};
use tailwater_fuzz::Choices;

fuzz_target!(|input: &[u8]| {
    let (choices, data) = Choices::split(input);
    check_varint(data);
    check_reader(choices, data);
});

fn check_varint(data: &[u8]) {
    let narrow = decode_varint32(data);
    let Some((value, length)) = decode_varint64(data) else {
        assert_eq!(narrow, None);
        return;
    };
    assert_eq!(narrow, u32::try_from(value).ok().map(|value| (value, length)));
    assert!(length <= MAX_VARINT64_LENGTH && length >= varint_length(value));
    let mut written = Vec::new();
    put_varint64(&mut written, value);
    assert_eq!(decode_varint64(&written), Some((value, varint_length(value))));
    // The bytes of `data` that were decoded equal the encoder's output if and only if both have the
    // same length.
    assert_eq!(length == written.len(), data[..length] == written);
    let signed = Reader::new(data).varsigned64("n").expect("a varint");
    written.clear();
    put_varsigned64(&mut written, signed);
    assert_eq!(decode_varint64(&written).map(|(value, _)| value), Some(value));
}

/// Checks that a `Reader` never moves backward or beyond the end of its bytes, and that a
/// successful read moves it forward by at least the minimum length of the value.
fn check_reader(mut choices: Choices<'_>, data: &[u8]) {
    let mut reader = Reader::new(data);
    while !choices.is_empty() {
        let before = reader.offset();
        let read = match choices.below(9) {
            0 => reader.u8("n").map(|_| 1),
            1 => reader.fixed16("n").map(|_| 2),
            2 => reader.fixed32("n").map(|_| 4),
            3 => reader.fixed64("n").map(|_| 8),
            4 => reader.varint32("n").map(|_| 1),
            5 => reader.varint64("n").map(|_| 1),
            6 => reader.varsigned64("n").map(|_| 1),
            7 => reader.length_prefixed("n").map(|bytes| bytes.len() + 1),
            _ => {
                let length = choices.below(1 << 20);
                reader.bytes(length, "n").map(<[u8]>::len)
            }
        };
        assert_eq!(reader.remaining(), &data[reader.offset()..]);
        match read {
            Ok(least) => assert!(reader.offset() >= before + least),
            Err(_) => assert!(reader.offset() >= before),
        }
    }
}
