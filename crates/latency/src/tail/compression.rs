//! Which of the options that a user adds to all rows concern the compression of tables. The source
//! database is built with them, because most blocks that readers read are still its own.

/// The options that choose a compression.
const CHOICES: [&str; 3] = ["compression", "bottommost_compression", "compression_per_level"];
/// The options that set its parameters.
const PARAMETERS: [&str; 2] = ["compression_opts", "bottommost_compression_opts"];
/// Values of [`CHOICES`] with which blocks are not compressed.
const NONE: [&str; 2] = ["kNoCompression", "kDisableCompressionOption"];

/// Returns the options of these option strings that concern compression, each followed by a
/// separator.
pub(super) fn options(all: &[&str]) -> String {
    let found = all.iter().flat_map(|options| split(options));
    let found = found.filter(|option| {
        let (name, _) = named(option);
        CHOICES.contains(&name) || PARAMETERS.contains(&name)
    });
    found.map(|option| format!("{};", option.trim())).collect()
}

/// Returns whether blocks are compressed with these options, which have no nested options that
/// begin like one of them.
pub(super) fn is_on(options: &str) -> bool {
    split(options).any(|option| {
        let (name, value) = named(option);
        CHOICES.contains(&name)
            && value.split(':').any(|kind| !kind.is_empty() && !NONE.contains(&kind))
    })
}

/// Splits an option string at the separators outside braces.
fn split(options: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    options.split(move |character| {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        character == ';' && depth == 0
    })
}

/// Returns the name and the value of an option.
fn named(option: &str) -> (&str, &str) {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    (name.trim(), value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_compression_are_found() {
        let all = "write_buffer_size=1;compression=kZSTD ;compression_opts={level=3;strategy=0};\
                   block_based_table_factory={block_size=4096;compression=kNoSuch};\
                   wal_compression=kZSTD";
        let found = options(&[all, "bottommost_compression=kLZ4Compression"]);
        let expected = "compression=kZSTD;compression_opts={level=3;strategy=0};\
                        bottommost_compression=kLZ4Compression;";
        assert_eq!(found, expected);
        assert!(is_on(&found));
        assert_eq!(options(&["", ";"]), "");
    }

    #[test]
    fn compression_is_off_without_a_choice() {
        for off in [
            "",
            "compression=kNoCompression;",
            "compression_opts={level=3};",
            "wal_compression=kZSTD",
        ] {
            assert!(!is_on(off), "{off}");
        }
        assert!(is_on("compression_per_level=kNoCompression:kNoCompression:kLZ4Compression"));
        assert!(!is_on("compression_per_level=kNoCompression:kNoCompression"));
    }
}
