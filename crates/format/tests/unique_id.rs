//! Tests of unique ids against the MANIFEST of the database that contains the golden tables.

mod common;

use common::GOLDEN;
use tailwater_format::table::unique_id::{SESSION_ID_LENGTH, decode_session_id, encode_session_id};
use tailwater_format::table::{Properties, UniqueId};

/// The unique ids that RocksDB recorded in the MANIFEST for the golden tables, in the order of
/// [`GOLDEN`]. The tables are the files 9, 11, 13 and so on.
const IN_MANIFEST: [&str; 14] = [
    "4a2c30c9303f7a6115f665ef0fcf72fb",
    "4a2c30c9303f7a6117f665ef0fcf72fb",
    "4a2c30c9303f7a6111f665ef0fcf72fb",
    "4a2c30c9303f7a6113f665ef0fcf72fb",
    "4a2c30c9303f7a610df665ef0fcf72fb",
    "4a2c30c9303f7a610ff665ef0fcf72fb",
    "4a2c30c9303f7a6109f665ef0fcf72fb",
    "4a2c30c9303f7a610bf665ef0fcf72fb",
    "4a2c30c9303f7a6105f665ef0fcf72fb",
    "4a2c30c9303f7a6107f665ef0fcf72fb",
    "4a2c30c9303f7a6101f665ef0fcf72fb",
    "4a2c30c9303f7a6103f665ef0fcf72fb",
    "4a2c30c9303f7a613df665ef0fcf72fb",
    "4a2c30c9303f7a613ff665ef0fcf72fb",
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_properties_give_the_ids_of_the_manifest() {
    for (number, golden) in GOLDEN.iter().enumerate() {
        let properties = Properties::from_entries(golden.properties()).unwrap();
        let (db, session) = (&properties.db_id, &properties.db_session_id);
        let file_number = properties.original_file_number;
        assert_eq!(file_number, 9 + 2 * number as u64);
        let id = UniqueId::new(db, session, file_number).unwrap();
        assert_eq!(hex(&id.manifest_bytes()), IN_MANIFEST[number], "{}", golden.name);
        assert_eq!(UniqueId::forced(db, session, file_number), id);
        let [first, second] = id.words();
        assert_eq!(id.manifest_bytes()[..8], first.to_le_bytes());
        assert_eq!(format!("{id:?}"), format!("{{{first},{second}}}"));
        // Encoding the numbers of a decoded session id must give the session id again.
        let (upper, lower) = decode_session_id(session).unwrap();
        assert_eq!(lower, first);
        assert_eq!(encode_session_id(upper, lower).as_bytes(), session);
    }
}

#[test]
fn the_external_form_is_that_of_rocksdb() {
    // RocksDB's own tests expect this id for these properties.
    let id = UniqueId::new(b"7265b6eb-4e42-4aec-86a4-0dc5e73a228d", b"ABCDEFGHIJ0123456789", 1);
    let external = id.unwrap().external_bytes();
    assert_eq!(hex(&external), "6474df650323bdf0b48e64f3039308ca17284b32e7f7444b");
}

#[test]
fn tables_without_an_id_are_distinguished() {
    let session = b"ABCDEFGHIJ0123456789";
    assert!(UniqueId::new(b"", session, 1).is_err());
    assert!(UniqueId::new(b"db", session, 0).is_err());
    for wrong in [&b""[..], b"ABCDEFGHIJ01", b"ABCDEFGHIJ012345678901234", b"ABCDEFGHIJ01234567-9"]
    {
        assert!(UniqueId::new(b"db", wrong, 1).is_err());
        let forced = UniqueId::forced(b"db", wrong, 1);
        assert_ne!(forced.words()[0], 0);
        assert_ne!(forced, UniqueId::forced(b"db", wrong, 2));
    }
    assert!(UniqueId::new(b"db", b"abcdefghij0123456789", 1).is_ok());
}

#[test]
fn session_ids_keep_their_lower_half() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..10_000 {
        let (upper, lower) = (random.u64(..), random.u64(..) >> random.u32(..64));
        let id = encode_session_id(upper, lower);
        assert_eq!(id.len(), SESSION_ID_LENGTH);
        assert!(id.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase()));
        let (_, back) = decode_session_id(id.as_bytes()).unwrap();
        assert_eq!(back, lower.max(1));
        let (kept, _) =
            decode_session_id(encode_session_id(upper >> 25, lower).as_bytes()).unwrap();
        assert_eq!(kept, upper >> 25);
    }
    for length in 0..40 {
        let bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        let _ = decode_session_id(&bytes);
    }
}
