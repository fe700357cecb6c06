//! File names of databases, and the contents of CURRENT. Checks that a parsed name can be
//! formatted, and that the result parses to the same kind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::file_name::{FileKind, format_current, info_log_prefix, parse_current};
use tailwater_fuzz::Choices;

fuzz_target!(|input: &[u8]| {
    let (choices, contents) = Choices::split(input);
    if let Ok(number) = parse_current(contents) {
        assert_eq!(parse_current(format_current(number).as_bytes()), Ok(number));
    }
    let Ok(name) = str::from_utf8(contents) else { return };
    if let Some(kind) = FileKind::parse(name) {
        let written = kind.to_string();
        assert_eq!(FileKind::parse(&written), Some(kind));
        let number = kind.number().map(|number| number.to_string()).unwrap_or_default();
        assert!(written.contains(&number));
    }
    let prefix = info_log_prefix(name);
    assert_eq!(FileKind::parse_info_log(&prefix, &prefix), Some(FileKind::InfoLog));
    if let Ok(prefix) = str::from_utf8(choices.clone().string()) {
        let _ = FileKind::parse_info_log(name, prefix);
    }
});
