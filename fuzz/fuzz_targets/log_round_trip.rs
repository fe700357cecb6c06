//! Writes records to a record log and reads them back. From a truncated log, checks that only
//! complete records are read, in order, and that the log is not reported as damaged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::record_log::{BLOCK_LENGTH, PredecessorWal, Writer};
use tailwater_fuzz::{Choices, walk};

const RECORDS_MAX: usize = 64;

fuzz_target!(|input: &[u8]| {
    let mut choices = Choices::new(input);
    let log_number = choices.number(8);
    let recyclable = choices.flag();
    let mut log = Vec::new();
    let mut writer = if choices.flag() { Writer::new_compressed(log_number, recyclable, &mut log).expect("zstd begins") } else { Writer::new(log_number, recyclable) };
    if choices.flag() {
        let (size, last_sequence) = (choices.number(8), choices.number(7));
        writer.add_predecessor(PredecessorWal { log_number, size, last_sequence }, &mut log);
    }
    let mut written = Vec::new();
    while !choices.is_empty() && written.len() < RECORDS_MAX {
        if choices.below(8) == 0 {
            writer.pad(&mut log);
            assert!(writer.offset().is_multiple_of(4096));
        } else {
            let record = record(&mut choices);
            writer.add_record(&record, &mut log).expect("zstd compresses");
            written.push(record);
        }
        assert_eq!(writer.offset(), log.len() as u64);
    }

    let whole = walk::read_log(&log, log_number);
    assert!(!whole.damaged && whole.torn.is_none());
    assert_eq!(whole.records, written);

    let cut = choices.below(log.len() + 1);
    let part = walk::read_log(&log[..cut], log_number);
    assert!(!part.damaged, "a log cut at {cut} is torn, not damaged");
    assert!(written.starts_with(&part.records));
});

/// Returns a record of up to 255 arbitrary bytes, or one that continues with zeros for up to two
/// blocks.
fn record(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut record = choices.string().to_vec();
    if choices.below(4) == 3 {
        record.resize(record.len() + choices.below(2 * BLOCK_LENGTH), 0);
    }
    record
}
