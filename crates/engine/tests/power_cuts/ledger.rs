//! Records which puts must be found after a power cut, and compares that with what is found.
//!
//! Each writer makes one put after another. Once a synced put has returned, that put and all
//! earlier puts of the writer are guaranteed. Later puts may survive, including one that did not
//! return. So each key must have either the value of its last guaranteed put, or the value of a
//! later put.

use std::collections::BTreeMap;

use tailwater_testkit::dump::Entry;

use crate::plan::{Plan, SLOTS, WRITERS, key};

/// Maximum number of wrong keys that an error message lists.
const SHOWN: usize = 8;

/// The puts of all writers in all lives of a database. A life lasts from one power cut to the next.
/// A writer numbers its puts from 0, through all lives.
#[derive(Debug)]
pub(crate) struct Ledger {
    plan: Plan,
    writers: Vec<Writer>,
}

#[derive(Debug)]
struct Writer {
    /// Number of the writer's first put since the last power cut.
    first: u64,
    /// All puts with lower numbers have returned. The put with this number has not returned, but it
    /// may still have taken effect.
    returned: u64,
    /// All puts with lower numbers are guaranteed: they must be found, unless a later put overwrote
    /// them.
    promised: u64,
    /// For each slot (the index of a key), which put was found after the last power cut. The put is
    /// identified by its number. `None` if the key did not exist.
    found: Vec<Option<u64>>,
}

/// For each writer and slot (the index of a key), which put was found. The put is identified by its
/// number. `None` if the key does not exist.
type Found = Vec<Vec<Option<u64>>>;

impl Ledger {
    pub(crate) fn new(plan: Plan) -> Self {
        let writer = || Writer { first: 0, returned: 0, promised: 0, found: vec![None; SLOTS] };
        Self { plan, writers: (0..WRITERS).map(|_| writer()).collect() }
    }

    /// Returns, for each writer, the number of its first put since the last power cut.
    pub(crate) fn first(&self) -> Vec<u64> {
        self.writers.iter().map(|writer| writer.first).collect()
    }

    /// Records that a put returned. If `synced`, this put and all earlier puts of the writer must
    /// survive power cuts from now on.
    pub(crate) fn returned(&mut self, writer: usize, number: u64, synced: bool) {
        let writer = &mut self.writers[writer];
        assert_eq!(number, writer.returned, "a writer's puts in order");
        writer.returned = number + 1;
        if synced {
            writer.promised = number + 1;
        }
    }

    /// Returns the number of puts that returned since the last power cut.
    pub(crate) fn count(&self) -> u64 {
        self.writers.iter().map(|writer| writer.returned - writer.first).sum()
    }

    /// Checks the contents of a database. Returns which puts were found.
    ///
    /// # Errors
    /// Describes missing values, and values that were never written.
    pub(crate) fn check(&self, entries: &[Entry]) -> Result<Found, String> {
        let mut values: BTreeMap<&[u8], &[u8]> =
            entries.iter().map(|entry| (entry.key.as_slice(), entry.value.as_slice())).collect();
        let mut found = Found::new();
        let mut wrong = Vec::new();
        for writer in 0..WRITERS {
            let mut slots = Vec::new();
            for (slot, possible) in self.possible(writer).iter().enumerate() {
                let key = key(writer, slot);
                let value = values.remove(key.as_slice());
                let matching =
                    possible.iter().rev().find(|put| self.value(writer, **put).as_deref() == value);
                slots.push(matching.copied().flatten());
                if matching.is_none() {
                    wrong.push(self.what_is_wrong(writer, slot, possible, value));
                }
            }
            found.push(slots);
        }
        wrong.extend(
            values.keys().map(|key| format!("{} was never written", String::from_utf8_lossy(key))),
        );
        if wrong.is_empty() {
            return Ok(found);
        }
        let count = wrong.len();
        wrong.truncate(SHOWN);
        Err(format!("{count} keys are wrong, such as\n{}", wrong.join("\n")))
    }

    /// Returns, for each slot, the states of its key that may be found, oldest first. A state is
    /// the number of the put that wrote the key, or `None` if the key does not exist. One of these
    /// states must be found.
    fn possible(&self, writer: usize) -> Vec<Vec<Option<u64>>> {
        let ledger = &self.writers[writer];
        let mut possible: Vec<_> = ledger.found.iter().map(|found| vec![*found]).collect();
        for number in ledger.first..=ledger.returned {
            let slot = &mut possible[self.plan.put(writer, number).slot];
            if number < ledger.promised {
                slot.clear();
            }
            slot.push(Some(number));
        }
        possible
    }

    fn value(&self, writer: usize, put: Option<u64>) -> Option<Vec<u8>> {
        put.map(|number| self.plan.put(writer, number).value)
    }

    fn what_is_wrong(
        &self,
        writer: usize,
        slot: usize,
        possible: &[Option<u64>],
        value: Option<&[u8]>,
    ) -> String {
        let ledger = &self.writers[writer];
        let number = (0..=ledger.returned).rev().find(|&number| {
            let put = self.plan.put(writer, number);
            put.slot == slot && Some(put.value.as_slice()) == value
        });
        let is = match (value, number) {
            (None, _) => "is missing".to_owned(),
            (Some(_), Some(number)) => format!("has the value of put {number}"),
            (Some(value), None) => format!("has {} bytes that were never written", value.len()),
        };
        format!(
            "writer {writer}, slot {slot} {is}; possible are {possible:?}, \
             puts below {} are promised, those below {} returned",
            ledger.promised, ledger.returned
        )
    }

    /// Begins the next life: the time until the next power cut. `found` has the puts that were
    /// found after the last power cut. These puts must survive from now on, since they were read
    /// from a database that was opened for writing.
    pub(crate) fn live_on(&mut self, found: Found) {
        for (writer, found) in self.writers.iter_mut().zip(found) {
            // The next put does not get the number `returned` again. The put that had this number
            // did not return, but it may have been written and found.
            let first = writer.returned + 1;
            *writer = Writer { first, returned: first, promised: first, found };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Ledger, Plan};

    #[test]
    fn the_ledger_detects_missing_and_invented_entries() {
        let plan = Plan { seed: 5 };
        let mut ledger = Ledger::new(plan);
        let entry = |number: u64| {
            let put = plan.put(0, number);
            Entry { family: "default".to_owned(), key: put.key, value: put.value }
        };
        let same = (1..).find(|&number| plan.put(0, number).slot == plan.put(0, 0).slot);
        let second = same.expect("another put of the same key");
        for number in 0..second {
            ledger.returned(0, number, number == 0);
        }
        // The first put of the key is guaranteed, and the second is not.
        assert!(ledger.check(&[]).is_err());
        assert!(ledger.check(&[entry(0)]).is_ok());
        let found = ledger.check(&[entry(second)]).expect("what may be there");
        assert!(ledger.check(&[entry(second + 1)]).is_err());
        assert!(ledger.check(&[Entry { value: vec![1; 9000], ..entry(0) }]).is_err());
        assert!(ledger.check(&[entry(0), Entry { key: vec![1], ..entry(0) }]).is_err());
        // The second put was found after a power cut, so it must still be found after the next one.
        ledger.live_on(found);
        assert_eq!(ledger.first(), [second + 1, 1, 1, 1]);
        assert!(ledger.check(&[entry(0)]).is_err());
        assert!(ledger.check(&[entry(second)]).is_ok());
    }
}
