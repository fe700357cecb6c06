//! Unique ids of tables. Checks that a session id that can be decoded into its numbers can be
//! encoded again, and decodes to the same numbers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::table::UniqueId;
use tailwater_format::table::unique_id::{SESSION_ID_LENGTH, decode_session_id, encode_session_id};
use tailwater_fuzz::Choices;

fuzz_target!(|input: &[u8]| {
    let (mut choices, session_id) = Choices::split(input);
    let file_number = choices.number(8);
    let (upper, lower) = (choices.number(8), choices.number(8));
    let db_id = choices.string();

    let forced = UniqueId::forced(db_id, session_id, file_number);
    if let Ok(id) = UniqueId::new(db_id, session_id, file_number) {
        assert_eq!(id, forced);
    }
    let [first, second] = forced.words();
    assert_eq!(forced.manifest_bytes()[..8], first.to_le_bytes());
    assert_eq!(forced.manifest_bytes()[8..], second.to_le_bytes());
    assert_eq!(forced.external_bytes(), forced.external_bytes());

    if let Ok((upper, lower)) = decode_session_id(session_id)
        && session_id.len() == SESSION_ID_LENGTH
        && lower != 0
    {
        let again = encode_session_id(upper, lower);
        assert_eq!(decode_session_id(again.as_bytes()), Ok((upper, lower)));
    }
    // In the text of a session id, the upper number shares its eight characters with two bits of
    // the lower number. The upper number must therefore be less than a quarter of 36 to the power
    // of 8.
    let upper = upper % (36u64.pow(8) / 4);
    let written = encode_session_id(upper, lower);
    assert_eq!(decode_session_id(written.as_bytes()), Ok((upper, lower.max(1))));
});
