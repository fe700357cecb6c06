//! Option strings and lists. Checks that the values of a parsed text can be written as text, and
//! that the result parses to the same values.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::options_text::{
    parse_option_string, split_list, strip_outer_braces, write_option_string,
};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(assignments) = parse_option_string(text) {
        for assignment in &assignments {
            let rest = text.get(assignment.offset..).expect("the offset is that of a character");
            assert!(rest.starts_with(assignment.value));
        }
        let pairs: Vec<_> = assignments.iter().map(|one| (one.name, one.value)).collect();
        let written = write_option_string(pairs.iter().copied());
        let again = parse_option_string(&written).expect("written text can be parsed");
        let again: Vec<_> = again.iter().map(|one| (one.name, one.value)).collect();
        assert_eq!(again, pairs);
    }
    for separator in [':', ';', ','] {
        if let Ok(items) = split_list(text, separator) {
            assert!(items.len() <= text.len() + 1);
        }
    }
    assert!(text.contains(strip_outer_braces(text)));
});
