//! Input that the table builder refuses, and faults of the file that it writes.

use std::path::Path;
use std::sync::Arc;

use tailwater::for_tests::Builder;
use tailwater::for_tests::{Origin, TableCompression};
use tailwater::{Error, ErrorKind, Result};
use tailwater_format::key::{ValueType, pack_trailer, put_internal_key};
use tailwater_format::table::Footer;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{IoMode, Operation, Purpose, Storage};

use crate::database::{family_options, format, writer};

const PATH: &str = "/000007.sst";
/// Number of entries in the table whose file has faults.
const ENTRIES: u32 = 3000;

fn internal_key(user_key: &[u8], sequence: u64, kind: ValueType) -> Vec<u8> {
    let mut key = Vec::new();
    put_internal_key(&mut key, user_key, pack_trailer(sequence, kind as u8));
    key
}

pub(crate) fn builder(storage: &SimStorage, options: &str) -> Builder {
    let path = Path::new(PATH);
    let options = family_options(options);
    let compression = TableCompression::for_flush(&options);
    let origin = Origin { file_number: 7, ..Origin::default() };
    let format = format(&options, None);
    Builder::new(Arc::clone(&format), &compression, origin, path, writer(storage, path))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn write_table(storage: &SimStorage) -> Result<()> {
    let mut builder = builder(storage, "compression=kNoCompression");
    let answer = (0..ENTRIES).try_for_each(|number| {
        let key = internal_key(&number.to_be_bytes(), 9, ValueType::Value);
        builder.add(&key, &[number as u8; 30])
    });
    if let Err(error) = &answer {
        // After a fault of the file, every further call must return the same error.
        let key = internal_key(b"zzzzz", 9, ValueType::Value);
        let again = builder.add(&key, b"").expect_err("a builder that failed");
        assert_eq!(again.to_string(), error.to_string());
        let end = builder.finish().expect_err("a builder that failed");
        assert_eq!(end.to_string(), error.to_string());
        return answer;
    }
    let (_, mut writer) = builder.finish()?;
    writer.sync()?;
    writer.close()?;
    Ok(())
}

fn contents(storage: &SimStorage) -> Vec<u8> {
    let file = storage
        .open(Path::new(PATH), IoMode::Buffered, Purpose::Verification)
        .unwrap_or_else(|error| panic!("{error}"));
    let mut bytes = vec![0; file.length().expect("a length") as usize];
    file.read_full_at(&mut bytes, 0, Purpose::Verification).expect("its bytes");
    bytes
}

#[test]
fn a_write_that_fails_leaves_no_table() {
    let whole = SimStorage::new(1);
    whole.start_recording();
    write_table(&whole).unwrap_or_else(|error| panic!("{error}"));
    assert!(Footer::decode(&contents(&whole), 0).is_ok());
    let writes = whole.calls().iter().filter(|call| call.operation == Operation::Write).count();
    assert!(writes > 5, "{writes} writes are not many");
    for at in 0..writes as u64 {
        for (fault, kind) in
            [(Fault::InputOutput, ErrorKind::Io), (Fault::NoSpace, ErrorKind::NoSpace)]
        {
            let storage = SimStorage::new(at);
            let rule = FaultRule::new(fault).operation(Operation::Write).at(at);
            storage.set_faults(FaultPlan::none().with(rule));
            let error = write_table(&storage).expect_err("a write that fails");
            assert_eq!((error.kind(), error.path()), (kind, Some(Path::new(PATH))), "write {at}");
            assert!(Footer::decode(&contents(&storage), 0).is_err(), "write {at}");
        }
    }
}

#[test]
fn a_truncated_file_is_not_a_table() {
    let storage = SimStorage::new(1);
    write_table(&storage).unwrap_or_else(|error| panic!("{error}"));
    let bytes = contents(&storage);
    for length in (bytes.len() - 2000..bytes.len()).chain((0..bytes.len()).step_by(97)) {
        assert!(Footer::decode(&bytes[..length], 0).is_err(), "{length} bytes");
    }
}

#[test]
fn an_abandoned_table_has_no_footer() {
    let storage = SimStorage::new(1);
    let mut builder = builder(&storage, "");
    for number in 0..ENTRIES {
        let key = internal_key(&number.to_be_bytes(), 9, ValueType::Value);
        builder.add(&key, b"value").unwrap_or_else(|error| panic!("{error}"));
    }
    builder.abandon();
    assert!(Footer::decode(&contents(&storage), 0).is_err());
}

/// Adds a record to a table and then makes `call`, which the table builder must refuse. Returns the
/// error. Checks that every later call returns the same error.
fn refused(call: impl FnOnce(&mut Builder) -> Result<()>) -> Error {
    let storage = SimStorage::new(1);
    let mut builder = builder(&storage, "");
    let first = internal_key(b"k", 5, ValueType::Value);
    builder.add(&first, b"value").unwrap_or_else(|error| panic!("{error}"));
    let error = call(&mut builder).expect_err("something to refuse");
    assert_eq!(builder.num_entries(), 1, "{error}");
    assert_eq!(error.path(), Some(Path::new(PATH)), "{error}");
    let later = internal_key(b"l", 5, ValueType::Value);
    let latched = builder.add(&later, b"").expect_err("a builder that failed");
    assert_eq!(latched.to_string(), error.to_string());
    error
}

#[test]
fn entries_out_of_order_are_refused() {
    for (user_key, sequence, kind, word) in [
        (&b"k"[..], 5, ValueType::Value, "above"),
        (b"k", 6, ValueType::Value, "above"),
        (b"j", 4, ValueType::Value, "above"),
        (b"l", 4, ValueType::RangeDeletion, "among the entries"),
    ] {
        let key = internal_key(user_key, sequence, kind);
        let error = refused(|builder| builder.add(&key, b""));
        assert!(error.is_corruption() && error.message().contains(word), "{error}");
    }
    let short = refused(|builder| builder.add(b"short", b""));
    assert!(short.is_corruption(), "{short}");
    let mut unknown = internal_key(b"l", 4, ValueType::Value);
    unknown[1] = 0x7e;
    assert!(refused(|builder| builder.add(&unknown, b"")).is_corruption());
    let index = internal_key(b"l", 4, ValueType::BlobIndex);
    assert!(refused(|builder| builder.add(&index, b"\x09")).is_corruption());
    for (start, kind, end) in [
        (&b"b"[..], ValueType::RangeDeletion, &b"b"[..]),
        (b"b", ValueType::RangeDeletion, b"a"),
        (b"b", ValueType::Value, b"c"),
    ] {
        let start = internal_key(start, 3, kind);
        let error = refused(|builder| builder.add_range_tombstone(&start, end));
        assert!(error.message().contains("range tombstone"), "{error}");
    }
}

#[test]
fn a_table_without_entries_is_refused() {
    let storage = SimStorage::new(1);
    let builder = builder(&storage, "");
    assert!(builder.is_empty());
    let error = builder.finish().expect_err("an empty table");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}
