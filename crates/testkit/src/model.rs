//! A model of a column family. It returns the expected results of gets and iterators, according to
//! a dump of the database.

use tailwater_format::Comparator;

use crate::dump::Entry;

/// The contents of one column family, in the order of its comparator.
#[derive(Debug, Clone)]
pub struct Family {
    /// The column family's name.
    pub name: String,
    /// The order of the keys.
    pub comparator: Comparator,
    /// The keys and values, in the order of the comparator.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Family {
    /// Creates the model of the column family with this name, from a dump.
    ///
    /// # Panics
    /// If the entries are not in the comparator's order.
    pub fn new(name: &str, comparator: Comparator, dump: &[Entry]) -> Self {
        let of_family = dump.iter().filter(|entry| entry.family == name);
        let entries: Vec<_> =
            of_family.map(|entry| (entry.key.clone(), entry.value.clone())).collect();
        let ordered = entries.is_sorted_by(|a, b| comparator.compare(&a.0, &b.0).is_lt());
        assert!(ordered, "the dump of family '{name}' is not in order");
        Self { name: name.to_owned(), comparator, entries }
    }

    /// Returns the expected value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let at = self.not_below(key);
        let (found, value) = self.entries.get(at)?;
        (found == key).then_some(value.as_slice())
    }

    /// Returns the index of the first entry whose key is at or after `key`.
    pub fn not_below(&self, key: &[u8]) -> usize {
        self.entries.partition_point(|(entry, _)| self.comparator.compare(entry, key).is_lt())
    }

    /// Returns the index of the first entry whose key is after `key`.
    pub fn behind(&self, key: &[u8]) -> usize {
        self.entries.partition_point(|(entry, _)| self.comparator.compare(entry, key).is_le())
    }
}

#[cfg(test)]
mod tests {
    use tailwater_format::Comparator;

    use super::Family;
    use crate::dump::Entry;

    fn family() -> Family {
        let entry = |key: &str| Entry {
            family: "f".to_owned(),
            key: key.as_bytes().to_vec(),
            value: key.to_uppercase().into_bytes(),
        };
        Family::new("f", Comparator::Bytewise, &["b", "d", "f"].map(entry))
    }

    #[test]
    fn a_key_is_found_and_its_neighbours_are_not() {
        let family = family();
        assert_eq!(family.get(b"d"), Some(&b"D"[..]));
        assert_eq!(family.get(b"c"), None);
        assert_eq!(family.get(b"g"), None);
    }

    #[test]
    fn bounds_differ_only_for_an_existing_key() {
        let family = family();
        assert_eq!((family.not_below(b"d"), family.behind(b"d")), (1, 2));
        assert_eq!((family.not_below(b"e"), family.behind(b"e")), (2, 2));
    }
}
