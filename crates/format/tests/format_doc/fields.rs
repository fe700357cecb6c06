//! Decodes the bytes on one line of a worked example.

use tailwater_format::key::{ParsedKey, ValueType};
use tailwater_format::table::BlockHandle;
use tailwater_format::varint::Reader;

/// Returns the value of `bytes` as text. All of the bytes are decoded as one value of type `kind`.
pub(crate) fn meaning(kind: &str, bytes: &[u8]) -> String {
    let mut reader = Reader::new(bytes);
    let meaning = match kind {
        "u8" => reader.u8("u8").unwrap().to_string(),
        "fixed16" => reader.fixed16("fixed16").unwrap().to_string(),
        "fixed32" => reader.fixed32("fixed32").unwrap().to_string(),
        "fixed64" => reader.fixed64("fixed64").unwrap().to_string(),
        "hex8" => format!("{:#04x}", reader.u8("hex8").unwrap()),
        "hex32" => format!("{:#010x}", reader.fixed32("hex32").unwrap()),
        "hex64" => format!("{:#018x}", reader.fixed64("hex64").unwrap()),
        "varint" => reader.varint64("varint").unwrap().to_string(),
        "signed" => reader.varsigned64("signed").unwrap().to_string(),
        "handle" => {
            let handle = BlockHandle::decode(&mut reader).unwrap();
            format!("{} bytes at {}", handle.size, handle.offset)
        }
        "slice" => quoted(reader.length_prefixed("slice").unwrap()),
        "text" => quoted(rest(&mut reader)),
        "key" => format!("{:?}", ParsedKey::parse(rest(&mut reader)).unwrap()),
        "key slice" => {
            format!("{:?}", ParsedKey::parse(reader.length_prefixed("key").unwrap()).unwrap())
        }
        "key end" => {
            // These bytes are the part of an internal key that is not shared with the previous key:
            // the end of the user key, and the trailer.
            let bytes = rest(&mut reader);
            let trailer = u64::from_le_bytes(*bytes.last_chunk().unwrap());
            let kind = ValueType::from_byte(trailer as u8).unwrap();
            let user_key = quoted(&bytes[..bytes.len() - 8]);
            format!("{user_key} @ {} : {kind:?}", trailer >> 8)
        }
        "zeros" => {
            let bytes = rest(&mut reader);
            assert!(bytes.iter().all(|&byte| byte == 0));
            format!("{} bytes", bytes.len())
        }
        "bytes" => format!("{} bytes", rest(&mut reader).len()),
        _ => panic!("{kind} is not a kind of field"),
    };
    assert!(reader.is_empty(), "{kind} does not use all of {bytes:02x?}");
    meaning
}

fn rest<'a>(reader: &mut Reader<'a>) -> &'a [u8] {
    reader.bytes(reader.remaining().len(), "rest").unwrap()
}

pub(crate) fn quoted(bytes: &[u8]) -> String {
    format!("'{}'", bytes.escape_ascii())
}
