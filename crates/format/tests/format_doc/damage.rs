//! docs/format.md states where damage to a file cannot be detected. These tests check that damage
//! there is not detected, and that damage next to it is.

use tailwater_format::Error;
use tailwater_format::blob::BlobFileHeader;
use tailwater_format::record_log::{DamageReason, Event, RecordReader, SkippedReason, SliceSource};
use tailwater_format::table::Footer;

use super::document::golden;

/// Returns the offsets in the footer at which at least one flipped bit is not detected.
fn unnoticed(file: &[u8]) -> Vec<usize> {
    let start = file.len() - 53;
    let sound = Footer::decode(file, 0).unwrap();
    let same = |at: usize, bit: u32| {
        let mut damaged = file.to_vec();
        damaged[start + at] ^= 1 << bit;
        Footer::decode(&damaged, 0).is_ok_and(|footer| {
            let version = sound.format_version;
            Footer { format_version: version, ..footer } == sound
        })
    };
    (0..53).filter(|&at| (0..8).any(|bit| same(at, bit))).collect()
}

#[test]
fn old_footers_hide_their_padding_and_version() {
    // The footer's block handles take the bytes 1 to 5. Zeros follow up to byte 40, and byte 41 is
    // the low byte of the format version. A flip of the top bit of byte 5 is not detected: the last
    // varint of the handles then continues with a zero byte, which does not change its value.
    let expected: Vec<usize> = (5..42).collect();
    for name in ["tour/000012.sst", "tour/000013.sst"] {
        assert_eq!(unnoticed(&golden(name)), expected, "{name}");
    }
}

#[test]
fn new_footers_hide_nothing_unless_there_is_no_checksum() {
    assert_eq!(unnoticed(&golden("tour/000009.sst")), []);
    let expected: Vec<usize> = (17..33).chain([41]).collect();
    assert_eq!(unnoticed(&golden("tour/000015.sst")), expected);
}

#[test]
fn tables_without_checksums_hide_everything_but_their_trailers() {
    let file = golden("tour/000015.sst");
    let checksum = Footer::decode(&file, 0).unwrap().block_checksum();
    let mut damaged = file[..32].to_vec();
    for at in 0..32 {
        damaged[at] ^= 1;
        assert_eq!(checksum.verify(0, &damaged).is_ok(), at < 28, "byte {at}");
        damaged[at] ^= 1;
    }
    // The flipped bits have been restored. The undamaged block is detected as misplaced if it is
    // read at another offset than its own.
    assert!(checksum.verify(32, &damaged).is_err());
}

/// Returns the number of records that a reader finds in a log, and descriptions of everything else
/// that the reader reports before the end.
fn read(log: &[u8]) -> (usize, Vec<String>) {
    let mut reader = RecordReader::new(SliceSource::new(log), 0);
    let (mut records, mut others) = (0, Vec::new());
    loop {
        match reader.next_event() {
            Ok(Event::End) => return (records, others),
            Ok(Event::Record(_)) => records += 1,
            Ok(Event::Skipped(skipped)) => others.push(match skipped.reason {
                SkippedReason::Zeros => "zeros".to_string(),
                other => format!("{other:?}"),
            }),
            Ok(Event::Damage(damage)) => others.push(match damage.reason {
                DamageReason::Zeros => "zeros inside a record".to_string(),
                other => other.to_string(),
            }),
            Ok(other) => others.push(format!("{other:?}")),
            Err(never) => match never {},
        }
    }
}

#[test]
fn a_header_of_zeros_hides_the_rest_of_its_block() {
    let sound = golden("data/plain.log");
    assert_eq!(read(&sound), (5, vec![]));
    // These zeros replace the header of the second record, which fills nearly all of the first
    // block. The reader skips this record and everything after it in the block.
    let mut damaged = sound.clone();
    damaged[36..43].fill(0);
    let (records, others) = read(&damaged);
    assert_eq!(records, 2);
    assert_eq!(others[0], "zeros");
    // These zeros replace the header of the last of a record's two fragments, so the record is
    // lost.
    let mut damaged = sound;
    damaged[32768..32775].fill(0);
    assert_eq!(read(&damaged), (3, vec!["zeros inside a record".to_string()]));
}

#[test]
fn a_flipped_bit_of_the_first_record_type_does_not_hide_a_log() {
    let sound = golden("tour/000008.log");
    assert_eq!(read(&sound).0, 3);
    // The flipped bits are in the record about the previous log and in the first and the second
    // batch. Each of them turns a fragment into one that appears to belong to another log.
    for (at, bit) in [(6, 0), (37, 2), (88, 2)] {
        let mut damaged = sound.clone();
        damaged[at] ^= 1 << bit;
        let (_, others) = read(&damaged);
        let is_found = others.iter().any(|other| {
            other.starts_with("checksum mismatch") || other.starts_with("a recyclable record")
        });
        let is_stale = others.iter().any(|other| other.starts_with("Stale"));
        assert!(is_found && !is_stale, "byte {at}: {others:?}");
    }
}

#[test]
fn a_log_cut_at_the_end_of_a_record_is_sound() {
    let sound = golden("data/plain.log");
    for end in [36, 32664, 32750, 32783] {
        assert_eq!(read(&sound[..end]).1, Vec::<String>::new(), "{end}");
    }
    assert_eq!(read(&sound[..32782]).1.len(), 1);
}

#[test]
fn a_blob_header_alone_hides_whether_and_when_blobs_expire() {
    let file = golden("tour/000018.blob");
    let sound = BlobFileHeader::decode(&file).unwrap();
    let same = |bit: usize| {
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let decoded: Result<_, Error> = BlobFileHeader::decode(&damaged);
        decoded.is_ok_and(|mut header| {
            header.expiration_range = sound.expiration_range;
            header == sound
        })
    };
    // These are the bytes of the expiration flag and the expiration range. Decoding the header
    // alone does not check them.
    let hidden: Vec<usize> = (0..30).filter(|at| (at * 8..at * 8 + 8).any(same)).collect();
    assert_eq!(hidden, (14..30).collect::<Vec<_>>());
}
