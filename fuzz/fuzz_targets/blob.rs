//! Blob files and blob indexes. Checks that decoded values can be encoded, and that the result
//! decodes to the same values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::blob::{
    BLOB_FOOTER_LENGTH, BLOB_RECORD_HEADER_LENGTH, BlobFileFooter, BlobFileHeader, BlobIndex,
    BlobRecordHeader,
};
use tailwater_format::checksum::{crc32c, mask_crc32c};
use tailwater_fuzz::Choices;

/// Number of bytes at the start of a blob record's header that the checksum of the header covers.
const RECORD_COVERED: usize = 24;

fuzz_target!(|input: &[u8]| {
    let (mut choices, data) = Choices::split(input);
    check_header(data);
    check_footer(data);
    check_footer(&with_crc(data, BLOB_FOOTER_LENGTH - 4));
    check_record(data);
    check_record(&with_crc(data, RECORD_COVERED));
    check_written_record(data, choices.string(), choices.number(8));
    check_index(data, choices);
});

/// Returns `data` with the four bytes at offset `covered` replaced by the checksum of the bytes
/// before them.
fn with_crc(data: &[u8], covered: usize) -> Vec<u8> {
    let mut bytes = data.to_vec();
    if let Some((head, rest)) = bytes.split_at_mut_checked(covered)
        && let Some(crc) = rest.first_chunk_mut::<4>()
    {
        *crc = mask_crc32c(crc32c(head)).to_le_bytes();
    }
    bytes
}

fn check_header(data: &[u8]) {
    let Ok(header) = BlobFileHeader::decode(data) else { return };
    let mut written = Vec::new();
    header.encode(&mut written);
    assert_eq!(BlobFileHeader::decode(&written), Ok(header));
}

fn check_footer(data: &[u8]) {
    let Ok(footer) = BlobFileFooter::decode(data) else { return };
    let mut written = Vec::new();
    footer.encode(&mut written);
    assert_eq!(written, data[..BLOB_FOOTER_LENGTH]);
}

fn check_record(data: &[u8]) {
    let Ok(header) = BlobRecordHeader::decode(data) else { return };
    let mut written = Vec::new();
    header.encode(&mut written);
    assert_eq!(written, data[..BLOB_RECORD_HEADER_LENGTH]);
    assert!(header.record_length() >= BLOB_RECORD_HEADER_LENGTH as u64);
    let rest = &data[BLOB_RECORD_HEADER_LENGTH..];
    let (key, value) = rest.split_at(rest.len().min(header.key_length as usize));
    let _ = header.verify(key, value);
}

fn check_written_record(value: &[u8], key: &[u8], expiration: u64) {
    let header = BlobRecordHeader::new(key, value, expiration);
    assert_eq!(header.verify(key, value), Ok(()));
    let mut written = Vec::new();
    header.encode(&mut written);
    assert_eq!(BlobRecordHeader::decode(&written), Ok(header));
}

fn check_index(data: &[u8], mut choices: Choices<'_>) {
    let Ok(index) = BlobIndex::decode(data) else { return };
    let mut written = Vec::new();
    index.encode(&mut written);
    assert_eq!(BlobIndex::decode(&written), Ok(index));
    if let BlobIndex::Blob(location) = index {
        let (key_length, file_length) = (choices.number(4) as usize, choices.number(8));
        if let Ok(start) = location.record_offset(key_length, file_length) {
            let value = start + BLOB_RECORD_HEADER_LENGTH as u64 + key_length as u64;
            assert_eq!(value, location.offset);
            assert!(location.offset + location.size <= file_length);
        }
    }
}
