//! Checks that the reader reads RocksDB's record logs, and that the writer produces the same bytes.

use std::collections::BTreeSet;

use tailwater_format::batch::{BatchReader, RecordKind};
use tailwater_format::record_log::{
    BLOCK_LENGTH, BlockSource, DamageReason, Event, HEADER_LENGTH, PADDING_TYPE, PredecessorWal,
    RECYCLABLE_HEADER_LENGTH, RecordReader, RecoveryMode, Skipped, SkippedReason, SliceSource,
    Stale, Torn, TornReason, Verdict, Writer, records_within,
};

use crate::support;

/// A log with five puts. The second put extends into the second block.
pub(crate) const PLAIN: &[u8] = include_bytes!("data/plain.log");
/// A compressed recyclable log with the puts of [`PLAIN`]. Its first record describes a previous
/// log that is missing.
const RECYCLABLE_ZSTD: &[u8] = include_bytes!("data/recyclable-zstd.log");
/// A log with three puts, in a recycled file that contained twelve puts of the same length before.
pub(crate) const STALE: &[u8] = include_bytes!("data/stale.log");
/// A log with a predecessor record and three puts, in a recycled file that contained twelve puts
/// before. No old record begins where a new record ends.
pub(crate) const STALE_UNALIGNED: &[u8] = include_bytes!("data/stale-unaligned.log");
/// A log with three compressed puts, in a recycled file that contained twelve puts before. No old
/// record begins where a new record ends.
pub(crate) const STALE_ZSTD: &[u8] = include_bytes!("data/stale-zstd.log");

/// Padding fills a log up to a multiple of this number of bytes.
const ALIGNMENT: usize = 4096;

/// The lengths of the values in [`PLAIN`] and [`RECYCLABLE_ZSTD`], in bytes.
const SPANNING: [usize; 5] = [10, 32600, 60, 0, 300];

/// Offset in [`STALE`] at which the last valid record ends. The next constant is the same for
/// [`STALE_UNALIGNED`].
const STALE_END: u64 = 390;
const STALE_UNALIGNED_END: u64 = 248;

/// Returns the value of `length` bytes that RocksDB put under the key `key<number>`: the output of
/// a xorshift generator.
pub(crate) fn value(number: u64, length: usize) -> Vec<u8> {
    let mut state = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Returns a fragment with this type, payload and log number and a valid checksum.
pub(crate) fn fragment(kind: u8, payload: &[u8], log_number: u32) -> Vec<u8> {
    let mut covered = vec![kind];
    if matches!(kind, 5..=8 | 11 | 131) {
        covered.extend_from_slice(&log_number.to_le_bytes());
    }
    covered.extend_from_slice(payload);
    let crc = crc32c::crc32c(&covered).rotate_right(15).wrapping_add(0xa282_ead8);
    let mut bytes = crc.to_le_bytes().to_vec();
    bytes.extend_from_slice(&(payload.len() as u16).to_le_bytes());
    bytes.extend_from_slice(&covered);
    bytes
}

/// The kinds of logs that Tailwater writes.
#[derive(Debug, Clone, Copy)]
struct Kind {
    compressed: bool,
    recyclable: bool,
}

impl Kind {
    const ALL: [Self; 4] = [
        Self { compressed: false, recyclable: false },
        Self { compressed: true, recyclable: false },
        Self { compressed: false, recyclable: true },
        Self { compressed: true, recyclable: true },
    ];

    /// Begins a log of this kind.
    fn begin(self, log_number: u64, out: &mut Vec<u8>) -> Writer {
        if self.compressed {
            Writer::new_compressed(log_number, self.recyclable, out).unwrap()
        } else {
            Writer::new(log_number, self.recyclable)
        }
    }

    /// Returns the length of a fragment's header, in bytes.
    fn header_length(self) -> usize {
        if self.recyclable { RECYCLABLE_HEADER_LENGTH } else { HEADER_LENGTH }
    }
}

/// Returns a random record length, in bytes. A few records are long enough to cross several blocks.
fn random_length(random: &mut fastrand::Rng) -> usize {
    if random.u8(..) < 20 { random.usize(..100_000) } else { random.usize(..900) }
}

/// All events of a log before [`Event::End`].
#[derive(Debug, Default, PartialEq)]
struct Log {
    records: Vec<(Vec<u8>, u64, u64)>,
    /// All events that are not records, as debug text, in order.
    others: Vec<String>,
    skipped: Vec<Skipped>,
    torn: Option<Torn>,
    stale: Vec<Stale>,
    damage: Vec<DamageReason>,
    predecessor: Option<PredecessorWal>,
}

fn read(bytes: &[u8], log_number: u64) -> Log {
    let mut reader = RecordReader::new(SliceSource::new(bytes), log_number);
    let mut log = Log::default();
    loop {
        let Ok(event) = reader.next_event();
        match event {
            Event::Record(record) => {
                log.records.push((record.payload.to_vec(), record.start, record.end));
                continue;
            }
            Event::Predecessor(predecessor) => log.predecessor = Some(predecessor),
            Event::TimestampSizes(_) => {}
            Event::Skipped(skipped) => log.skipped.push(skipped),
            Event::Torn(torn) => log.torn = Some(torn),
            Event::Stale(stale) => log.stale.push(stale),
            Event::Damage(damage) => log.damage.push(damage.reason),
            Event::End => break,
        }
        log.others.push(format!("{event:?}"));
    }
    assert_eq!(reader.offset(), bytes.len() as u64);
    assert_eq!(reader.next_event(), Ok(Event::End));
    log
}

/// Returns the number of records that `mode` recovers from a log, and the verdict at which reading
/// ended.
pub(crate) fn recover(bytes: &[u8], log_number: u64, mode: RecoveryMode) -> (usize, Verdict) {
    let mut reader = RecordReader::new(SliceSource::new(bytes), log_number);
    let mut records = 0;
    loop {
        let Ok(event) = reader.next_event();
        records += usize::from(matches!(event, Event::Record(_)));
        match mode.verdict(&event) {
            Verdict::Continue => {}
            verdict => return (records, verdict),
        }
    }
}

/// Checks that the log's records are puts with these key numbers and value lengths.
fn assert_puts(log: &Log, puts: &[(u64, usize)]) {
    assert_eq!(log.records.len(), puts.len());
    for ((payload, start, end), (number, length)) in log.records.iter().zip(puts) {
        assert!(start < end);
        let records: Vec<_> = BatchReader::new(payload).unwrap().map(Result::unwrap).collect();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].kind, RecordKind::Put);
        assert_eq!(records[0].key, format!("k{number:03}").as_bytes());
        assert_eq!(records[0].value, value(*number, *length));
    }
}

fn spanning_puts() -> Vec<(u64, usize)> {
    (0..).zip(SPANNING).collect()
}

#[test]
fn plain_records_are_read_with_their_offsets() {
    let log = read(PLAIN, 4);
    assert_puts(&log, &spanning_puts());
    assert_eq!(log.others, Vec::<String>::new());
    let mut end = 0;
    for (_, record_start, record_end) in &log.records {
        assert_eq!(*record_start, end);
        end = *record_end;
    }
    assert_eq!(end, PLAIN.len() as u64);
}

#[test]
fn compressed_and_recyclable_records_read_back() {
    let log = read(RECYCLABLE_ZSTD, 4);
    assert_puts(&log, &spanning_puts());
    assert_eq!(log.others, Vec::<String>::new());
    // If the log is read with another log number, all its records are stale.
    let other = read(RECYCLABLE_ZSTD, 5);
    assert_eq!(other.records, Vec::new());
    assert!(!other.stale.is_empty());
}

#[test]
fn records_are_written_byte_for_byte_as_rocksdb_writes_them() {
    let mut out = Vec::new();
    let mut writer = Writer::new(4, false);
    for (payload, _, _) in read(PLAIN, 4).records {
        writer.add_record(&payload, &mut out).unwrap();
        assert_eq!(writer.offset(), out.len() as u64);
    }
    assert_eq!(out, PLAIN);

    let stale = read(STALE_UNALIGNED, 10);
    out.clear();
    let mut writer = Writer::new(10, true);
    writer.add_predecessor(stale.predecessor.unwrap(), &mut out);
    for (payload, _, _) in stale.records {
        writer.add_record(&payload, &mut out).unwrap();
    }
    assert_eq!(out, &STALE_UNALIGNED[..STALE_UNALIGNED_END as usize]);
}

#[test]
fn records_of_an_earlier_use_of_the_file_are_stale() {
    let log = read(STALE, 10);
    assert_puts(&log, &[(30, 100), (31, 100), (32, 100)]);
    assert_eq!(
        log.stale[0],
        Stale { offset: STALE_END, dropped: 0, in_record: false, is_older: true }
    );
    assert_eq!(log.stale.len(), 9);
    for (mode, verdict) in [
        (RecoveryMode::TolerateCorruptedTailRecords, Verdict::End),
        (RecoveryMode::AbsoluteConsistency, Verdict::End),
        (RecoveryMode::PointInTime, Verdict::StopReplay),
        (RecoveryMode::SkipAnyCorruptedRecords, Verdict::End),
    ] {
        assert_eq!(recover(STALE, 10, mode), (3, verdict), "{mode:?}");
    }
}

/// Checks that log numbers are compared correctly, although a header contains only the low 32 bits
/// of the 64-bit log number.
#[test]
fn older_logs_are_recognised_across_the_wraparound_of_log_numbers() {
    for (number, left_by, is_older) in [
        (1 << 32, u64::from(u32::MAX), true),
        (u64::from(u32::MAX), 1 << 32, false),
        (7, 6, true),
        (6, 7, false),
    ] {
        let mut out = Vec::new();
        Writer::new(left_by, true).add_record(b"record", &mut out).unwrap();
        let stale = read(&out, number).stale;
        assert_eq!(stale.first().map(|it| it.is_older), Some(is_older), "{number} after {left_by}");
    }
}

#[test]
fn a_record_cut_off_by_a_new_one_is_damage_that_may_be_stale() {
    let puts = [(30, 40), (31, 41), (32, 42)];
    let log = read(STALE_UNALIGNED, 10);
    assert_puts(&log, &puts);
    let predecessor = PredecessorWal { log_number: 8, size: 115, last_sequence: 13 };
    assert_eq!(log.predecessor, Some(predecessor));
    assert_puts(&read(STALE_ZSTD, 10), &puts);
    for bytes in [STALE_UNALIGNED, STALE_ZSTD] {
        // The new log ends inside an old record, so the bytes of the next header are random.
        // Whatever their values are, these two modes must not fail.
        for mode in [RecoveryMode::PointInTime, RecoveryMode::SkipAnyCorruptedRecords] {
            let (records, verdict) = recover(bytes, 10, mode);
            assert_eq!((records, verdict == Verdict::Fail), (3, false), "{mode:?}");
        }
    }
}

/// Returns the first event that reports damage, a torn end, a stale fragment or skipped bytes;
/// `None` if there is no such event.
fn first_irregularity(bytes: &[u8], log_number: u64) -> Option<Event<'static>> {
    let mut reader = RecordReader::new(SliceSource::new(bytes), log_number);
    loop {
        match reader.next_event() {
            Ok(Event::Record(_) | Event::Predecessor(_) | Event::TimestampSizes(_)) => {}
            Ok(Event::Damage(damage)) => return Some(Event::Damage(damage)),
            Ok(Event::Torn(torn)) => return Some(Event::Torn(torn)),
            Ok(Event::Stale(stale)) => return Some(Event::Stale(stale)),
            Ok(Event::Skipped(skipped)) => return Some(Event::Skipped(skipped)),
            Ok(Event::End) => return None,
            Err(never) => match never {},
        }
    }
}

#[test]
fn a_flipped_bit_of_a_header_does_not_make_a_record_one_of_another_log() {
    for bytes in [STALE, STALE_UNALIGNED] {
        let records = read(bytes, 10).records;
        for (_, start, _) in &records {
            for bit in 0..8 * RECYCLABLE_HEADER_LENGTH {
                let mut damaged = bytes.to_vec();
                damaged[*start as usize + bit / 8] ^= 1 << (bit % 8);
                let found = first_irregularity(&damaged, 10);
                let is_own = matches!(found, Some(Event::Damage(damage)) if damage.own);
                assert!(is_own, "bit {bit} at {start}: {found:?}");
            }
        }
    }
}

#[test]
fn remains_of_an_old_record_are_not_attributed_to_this_log() {
    for bytes in [STALE_UNALIGNED, STALE_ZSTD] {
        // Wherever the file is truncated, the old bytes after this log must not count as damage of
        // this log.
        let (_, _, end) = read(bytes, 10).records.pop().expect("a record");
        for length in end as usize + 1..bytes.len() {
            let is_end = match first_irregularity(&bytes[..length], 10) {
                Some(Event::Damage(damage)) => damage.recycled && !damage.own,
                Some(Event::Torn(torn)) => !torn.own,
                _ => false,
            };
            assert!(is_end, "{length}");
        }
    }
    // If a whole record of the log that is being read comes after the damage, the damage is
    // reported as `followed`.
    let mut bytes = STALE_UNALIGNED.to_vec();
    bytes.extend(fragment(5, b"later", 10));
    let found = first_irregularity(&bytes, 10);
    assert!(matches!(found, Some(Event::Damage(damage)) if damage.followed), "{found:?}");
}

#[test]
fn a_flipped_bit_in_a_length_is_damage_not_a_torn_tail() {
    let last = read(PLAIN, 4).records.pop().expect("a record");
    for bit in 0..16 {
        let mut bytes = PLAIN.to_vec();
        bytes[last.1 as usize + 4 + bit / 8] ^= 1 << (bit % 8);
        let found = first_irregularity(&bytes, 4);
        assert!(matches!(found, Some(Event::Damage(_))), "bit {bit}: {found:?}");
    }
}

#[test]
fn unwritten_space_before_written_bytes_is_lossy() {
    let mut bytes = PLAIN[..36].to_vec();
    bytes.extend([0; 600]);
    let is_lossy = |bytes: &[u8]| match first_irregularity(bytes, 4) {
        Some(Event::Skipped(skipped)) => skipped.lossy,
        found => panic!("{found:?}"),
    };
    assert!(!is_lossy(&bytes));
    bytes.push(1);
    assert!(is_lossy(&bytes));
    // Zeros follow up to the end of the block, and the next block begins with a fragment. The
    // reader skips the zeros and finds this fragment, so it loses nothing.
    bytes.truncate(636);
    bytes.resize(BLOCK_LENGTH, 0);
    bytes.extend(fragment(1, b"later", 4));
    assert!(!is_lossy(&bytes));
    assert_eq!(records_within(&bytes[100..]).collect::<Vec<_>>(), [b"later"]);
}

#[test]
fn every_truncation_leaves_complete_records_and_a_torn_tail() {
    let whole = read(PLAIN, 4);
    for length in (0..1000).chain(32_600..PLAIN.len()) {
        let log = read(&PLAIN[..length], 4);
        let complete = whole.records.iter().filter(|(_, _, end)| *end <= length as u64).count();
        assert_eq!(log.records, whole.records[..complete], "{length}");
        let end = log.records.last().map_or(0, |(_, _, end)| *end);
        assert_eq!(log.torn.is_some(), end != length as u64, "{length}");
        assert_eq!(log.damage, Vec::new());
        assert!(log.torn.is_none_or(|torn| torn.offset >= end));
    }
}

#[test]
fn a_flipped_bit_costs_only_the_records_of_its_block() {
    let whole = read(PLAIN, 4);
    for at in (0..700).chain(32_700..PLAIN.len()) {
        let mut bytes = PLAIN.to_vec();
        bytes[at] ^= 0x10;
        let log = read(&bytes, 4);
        let before = whole.records.iter().filter(|(_, _, end)| *end <= at as u64).count();
        assert!(log.records.starts_with(&whole.records[..before]), "{at}");
        assert!(log.records.len() < whole.records.len(), "{at}");
        assert!(!log.damage.is_empty() || log.torn.is_some(), "{at}: {log:?}");
    }
}

/// Regression test: without its first block, which states the compression, a log looked
/// uncompressed, and its other records like malformed batches, which no recovery mode accepts.
#[test]
fn a_compressed_log_without_its_first_block_has_its_other_records() {
    for is_recyclable in [false, true] {
        let mut bytes = Vec::new();
        let mut writer = Writer::new_compressed(7, is_recyclable, &mut bytes).unwrap();
        for number in 0..100 {
            writer.add_record(&value(number, 1000), &mut bytes).unwrap();
        }
        for lost in [0, 0xAB] {
            bytes[..BLOCK_LENGTH].fill(lost);
            let found: Vec<_> = read(&bytes, 7).records.into_iter().map(|(it, ..)| it).collect();
            // About 31 records begin in the first block.
            let expected: Vec<_> =
                (100 - found.len() as u64..100).map(|it| value(it, 1000)).collect();
            assert!((66..70).contains(&found.len()), "{}", found.len());
            assert!(found == expected);
        }
    }
}

#[test]
fn unwritten_space_is_skipped() {
    let mut bytes = PLAIN.to_vec();
    bytes.resize(5 * BLOCK_LENGTH, 0);
    let log = read(&bytes, 4);
    assert_puts(&log, &spanning_puts());
    assert_eq!(log.skipped.len(), 4);
    assert!(log.skipped.iter().all(|skipped| skipped.reason == SkippedReason::Zeros));
    for rest in 1..7 {
        let mut bytes = PLAIN.to_vec();
        bytes.resize(PLAIN.len() + rest, 0);
        let torn = read(&bytes, 4).torn.unwrap();
        assert_eq!((torn.reason, torn.dropped), (TornReason::ZeroPadding, rest as u64));
    }
}

#[test]
fn records_of_other_types_are_ignored_refused_or_surfaced() {
    let fragment = |kind: u8, payload: &[u8]| fragment(kind, payload, 1);
    let read = |kind: u8, payload: &[u8]| read(&fragment(kind, payload), 1);
    for kind in 12..130 {
        let log = read(kind, b"payload");
        match kind & 0x80 {
            0 => assert_eq!(log.damage, [DamageReason::UnknownType(kind)]),
            _ => assert_eq!(log.skipped[0].reason, SkippedReason::Ignorable(kind)),
        }
    }
    assert_eq!(read(0, b"x").damage, [DamageReason::UnknownType(0)]);
    assert_eq!(read(10, &[1, 0, 0, 0, 8, 0]).others.len(), 1);
    assert_eq!(read(10, &[1, 0, 0, 0, 0, 0]).damage, [DamageReason::TimestampSizesMalformed]);
    assert_eq!(read(10, &[1]).damage, [DamageReason::TimestampSizesMalformed]);
    assert_eq!(read(130, &[1]).damage, [DamageReason::PredecessorMalformed]);
    assert_eq!(read(9, &[7, 0, 0, 0]).others, Vec::<String>::new());
    assert_eq!(read(9, &[4, 0, 0, 0]).damage, [DamageReason::CompressionUnsupported(4)]);
    assert_eq!(read(4, b"x").damage, [DamageReason::MissingStart]);
    let mut interrupted = fragment(2, b"first");
    interrupted.extend(fragment(1, b"full"));
    let log = self::read(&interrupted, 1);
    assert_eq!((log.damage, log.records.len()), (vec![DamageReason::MissingEnd], 1));
    let mut interrupted = fragment(2, b"first");
    interrupted.extend(fragment(PADDING_TYPE, b""));
    interrupted.extend(fragment(4, b"last"));
    let log = self::read(&interrupted, 1);
    assert_eq!((log.damage, log.records.len()), (vec![DamageReason::MissingStart], 0));
}

/// A record length, in bytes, from which on all incompressible records have the same overhead: zstd
/// frames of this length or more store their length in two bytes.
const LONG: usize = 256;

/// Returns the length of a record's payload. The record begins at `offset`, a multiple of
/// [`ALIGNMENT`], and ends `gap` bytes before one of the next two multiples. `None` if there is no
/// such length. `rest` is the number of bytes that a record takes in addition to its payload, if it
/// does not cross the end of a block.
fn length_with_gap(kind: Kind, gap: usize, rest: usize, offset: u64) -> Option<usize> {
    let header = kind.header_length();
    let meets_end = offset as usize % BLOCK_LENGTH == BLOCK_LENGTH - ALIGNMENT;
    if gap + header == ALIGNMENT {
        return Some(0);
    }
    if gap + rest + LONG <= ALIGNMENT {
        return Some(ALIGNMENT - gap - rest);
    }
    match meets_end {
        false => Some(2 * ALIGNMENT - gap - rest),
        // The record crosses the end of the block. So it has a second fragment, with another header
        // and at least one byte of payload.
        true if gap + header < ALIGNMENT => Some(2 * ALIGNMENT - gap - rest - header),
        true => None,
    }
}

/// Writes records, each of them followed by padding. Most records end `gap` bytes before a multiple
/// of [`ALIGNMENT`]. Continues until records have ended before all multiples of [`ALIGNMENT`] in a
/// block. Then reads all records.
fn assert_gap_is_padded(kind: Kind, gap: usize, noise: &[u8]) {
    let (mut out, mut expected) = (Vec::new(), Vec::new());
    let mut writer = kind.begin(9, &mut out);
    let mut add = |writer: &mut Writer, length: usize| {
        let begin = writer.offset() as usize;
        let payload = &noise[expected.len()..][..length];
        writer.add_record(payload, &mut out).unwrap();
        expected.push(payload);
        let end = writer.offset() as usize;
        writer.pad(&mut out);
        assert_eq!(writer.offset(), out.len() as u64);
        assert!(out.len().is_multiple_of(ALIGNMENT), "{kind:?}, {gap}, {end}");
        assert!(out.len() < end + ALIGNMENT + 15, "{kind:?}, {gap}, {end}");
        (begin, end)
    };
    let (begin, end) = add(&mut writer, LONG);
    let rest = end - begin - LONG;
    // If `gap` and the length of a header together exceed [`ALIGNMENT`], no record can end `gap`
    // bytes before offset [`ALIGNMENT`] of a block: the space before the record's end is too short
    // for the header. So this position is not required.
    let excepted = usize::from(gap + kind.header_length() > ALIGNMENT);
    let mut places = BTreeSet::new();
    while places.len() < BLOCK_LENGTH / ALIGNMENT - excepted {
        let mut is_new = false;
        if let Some(length) = length_with_gap(kind, gap, rest, writer.offset()) {
            let (_, end) = add(&mut writer, length);
            let boundary = end.next_multiple_of(ALIGNMENT);
            assert_eq!(boundary - end, gap, "{kind:?}, {end}");
            is_new = places.insert(boundary % BLOCK_LENGTH);
        }
        if !is_new {
            // If every record with its padding takes 2 * [`ALIGNMENT`] bytes, records end only
            // before every second multiple of [`ALIGNMENT`]. This record takes [`ALIGNMENT`] bytes,
            // so later records end before the multiples that have been left out.
            add(&mut writer, 0);
        }
    }
    let log = read(&out, 9);
    let found = log.records.iter().map(|(payload, _, _)| payload);
    assert!(found.eq(expected.iter()), "{kind:?}, {gap}");
    assert_eq!(log.skipped.len(), log.others.len(), "{kind:?}, {gap}");
}

#[test]
fn padding_fills_every_gap_and_is_invisible_to_readers() {
    let noise = value(7, 3 * ALIGNMENT);
    for kind in Kind::ALL {
        for gap in 0..ALIGNMENT {
            assert_gap_is_padded(kind, gap, &noise);
        }
    }
}

#[test]
fn random_records_round_trip_in_every_kind_of_log() {
    let mut random = support::random();
    for (round, kind) in (0..40).zip(Kind::ALL.into_iter().cycle()) {
        let mut out = Vec::new();
        let mut writer = kind.begin(round, &mut out);
        let mut expected = Vec::new();
        for number in 0..60 {
            let length = random_length(&mut random);
            let payload =
                if random.bool() { value(number, length) } else { vec![number as u8; length] };
            writer.add_record(&payload, &mut out).unwrap();
            expected.push(payload);
            if random.u8(..) < 40 {
                writer.pad(&mut out);
                assert!(writer.offset().is_multiple_of(ALIGNMENT as u64));
            }
        }
        let log = read(&out, round);
        let found: Vec<Vec<u8>> = log.records.into_iter().map(|(payload, _, _)| payload).collect();
        assert_eq!(found, expected);
        assert_eq!(log.skipped.len(), log.others.len());
    }
}

#[test]
fn reading_a_growing_log_resumes_at_its_end() {
    let mut random = support::random();
    for (round, kind) in (0..80).zip(Kind::ALL.into_iter().cycle()) {
        let mut out = Vec::new();
        let mut writer = kind.begin(round, &mut out);
        let before = PredecessorWal { log_number: 1, size: 2, last_sequence: 3 };
        writer.add_predecessor(before, &mut out);
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        let mut reader = RecordReader::new(Portion(out.clone()), round);
        let mut taken = out.len();
        for number in 0..60 {
            let length = random_length(&mut random);
            let payload = value(number, length);
            writer.add_record(&payload, &mut out).unwrap();
            expected.push(payload);
            if random.u8(..) < 40 {
                writer.pad(&mut out);
            }
            if random.bool() {
                take_all(&mut reader, &mut found);
                assert_eq!(reader.offset(), taken as u64);
                reader.resume(Portion(out[taken..].to_vec()));
                taken = out.len();
            }
        }
        take_all(&mut reader, &mut found);
        reader.resume(Portion(out[taken..].to_vec()));
        take_all(&mut reader, &mut found);
        assert!(found == expected, "{kind:?}");
    }
}

/// A source that contains a part of a log. The reader is resumed with the next part.
struct Portion(Vec<u8>);

impl BlockSource for Portion {
    type Error = std::convert::Infallible;

    fn fill(&mut self, block: &mut [u8]) -> Result<usize, Self::Error> {
        let rest = self.0.split_off(self.0.len().min(block.len()));
        let part = std::mem::replace(&mut self.0, rest);
        block[..part.len()].copy_from_slice(&part);
        Ok(part.len())
    }
}

/// Reads to the end of the source, adds the records to `found`, and checks that there is no damage.
fn take_all(reader: &mut RecordReader<Portion>, found: &mut Vec<Vec<u8>>) {
    loop {
        let Ok(event) = reader.next_event();
        match event {
            Event::Record(record) => found.push(record.payload.to_vec()),
            Event::Predecessor(_) | Event::Skipped(_) => {}
            Event::End => return,
            other => panic!("{other:?}"),
        }
    }
}

/// A source that provides this number of blocks of zeros and then fails.
struct Broken(usize);

impl BlockSource for Broken {
    type Error = &'static str;

    fn fill(&mut self, block: &mut [u8]) -> Result<usize, Self::Error> {
        self.0 = self.0.checked_sub(1).ok_or("broken")?;
        block.fill(0);
        Ok(block.len())
    }
}

#[test]
fn errors_of_the_source_are_returned() {
    let mut reader = RecordReader::new(Broken(2), 1);
    assert!(matches!(reader.next_event(), Ok(Event::Skipped(_))));
    assert!(matches!(reader.next_event(), Ok(Event::Skipped(_))));
    assert_eq!(reader.next_event(), Err("broken"));
}

#[test]
fn no_bytes_make_the_reader_panic() {
    let mut random = support::random();
    for log in [PLAIN, RECYCLABLE_ZSTD, STALE, STALE_UNALIGNED, STALE_ZSTD] {
        support::damage(&log[..log.len().min(400)], |bytes| read(bytes, 10).records.len());
        for _ in 0..300 {
            let mut bytes = log.to_vec();
            for _ in 0..random.usize(1..20) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            read(&bytes, 4);
        }
    }
}
