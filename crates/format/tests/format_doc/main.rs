//! Compares docs/format.md with the code and with files written by RocksDB.
//!
//! A worked example is a fenced block that begins with `hex`:
//!
//! ```text
//! ```hex name=varint file=tour/000016.sst offset=2
//! ac 02  value length  varint  300
//! = 300
//! ```
//! ```
//!
//! The bytes of an example must occur at that offset of that file below `tests/golden`. A line
//! consists of some bytes, their meaning, their encoding and their value, separated by two spaces.
//! A line that has only bytes continues the line above it. The lines that begin with `=` must equal
//! the output of this crate's decoder for all bytes of the example. From the decoded values this
//! crate's encoder must produce the same bytes. The example's name selects its decoder and encoder,
//! see [`examples`].
//!
//! A fenced block that begins with `text file=NAME` must occur literally in that file.

#[cfg(test)]
mod damage;
#[cfg(test)]
mod document;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod fields;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod tables;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::document::{document, examples, golden, quotations};
    use super::examples::CHECKS;
    use super::fields::meaning;

    /// Maximum length of a line of an example, in characters. It exceeds the limit for other lines,
    /// because values in examples are not wrapped.
    const EXAMPLE_LENGTH_MAX: usize = 105;

    #[test]
    fn every_example_occurs_in_a_file_written_by_rocksdb() {
        for example in examples() {
            let file = golden(&example.file);
            let found = file.get(example.offset..).and_then(|rest| rest.get(..example.bytes.len()));
            assert_eq!(found, Some(&example.bytes[..]), "{}", example.name);
        }
    }

    #[test]
    fn the_value_of_every_line_matches_its_bytes() {
        for example in examples() {
            for field in &example.fields {
                let meaning = meaning(&field.kind, &field.bytes);
                assert_eq!(meaning, field.value, "{}: {}", example.name, field.name);
            }
        }
    }

    #[test]
    fn decoders_and_encoders_agree_with_every_example() {
        for example in examples() {
            let check = CHECKS.iter().find(|(name, _)| *name == example.name);
            let (_, check) = check.unwrap_or_else(|| panic!("{} is not checked", example.name));
            let answer = check(&example);
            let says = answer.says.join("\n");
            assert_eq!(says, example.says.join("\n"), "{}", example.name);
            if let Some(encoded) = answer.encoded {
                assert_eq!(encoded, example.bytes, "{} encoded again", example.name);
            }
        }
    }

    #[test]
    fn no_example_is_missing_from_the_document() {
        let shown: Vec<String> = examples().into_iter().map(|example| example.name).collect();
        let names: BTreeSet<&str> = shown.iter().map(String::as_str).collect();
        assert_eq!(names.len(), shown.len(), "a repeated name");
        assert_eq!(names, CHECKS.iter().map(|(name, _)| *name).collect());
    }

    #[test]
    fn quotations_occur_in_their_files() {
        assert!(!quotations().is_empty());
        for (file, text) in quotations() {
            let golden = String::from_utf8(golden(&file)).unwrap();
            assert!(golden.contains(&text), "{file} does not contain\n{text}");
        }
    }

    #[test]
    fn lines_fit_a_page() {
        let mut in_block = false;
        for (number, line) in document().lines().enumerate() {
            in_block ^= line.starts_with("```");
            let limit = match (line.starts_with('|'), in_block) {
                (true, _) => usize::MAX,
                (_, true) => EXAMPLE_LENGTH_MAX,
                _ => 100,
            };
            assert!(line.chars().count() <= limit, "line {} is too long", number + 1);
            assert_eq!(line, line.trim_end(), "line {} ends in a space", number + 1);
        }
    }

    #[test]
    fn links_lead_to_chapters() {
        let title = |line: &str| {
            let words = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
            words.replace(|c: char| c != '-' && !c.is_alphanumeric(), "")
        };
        let chapters: BTreeSet<String> =
            document().lines().filter(|line| line.starts_with('#')).map(title).collect();
        let links = document().split("](#").skip(1).map(|rest| rest.split(')').next().unwrap());
        for link in links {
            assert!(chapters.contains(link), "no chapter {link}");
        }
    }
}
