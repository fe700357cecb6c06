//! The data that the writers write. It shows for any state of the database whether that state can
//! have existed.
//!
//! Each writer has keys of its own, called slots, which are spread over the column families. It
//! writes numbered batches: batch `n` puts the number `n` into every slot, puts a key called token
//! `n`, and deletes token `n - 1`. So a state with only a part of a batch, or with parts of two
//! batches of a writer, is detected.
//!
//! The value in slot 0 also lists which batches of the other writers had been acknowledged when the
//! batch was started. A state with this batch must contain those batches, too.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use tailwater::WriteBatch;

/// The names of the column families that writers write to.
pub(crate) const FAMILIES: [&str; 3] = ["default", "second", "third"];

/// The entries of column families, by the index of the family in [`FAMILIES`] and the key.
pub(crate) type State = BTreeMap<(usize, Vec<u8>), Vec<u8>>;

/// The number of the last batch of each writer.
pub(crate) type Numbers = Vec<u64>;

/// The writers, and how far each has written.
#[derive(Debug)]
pub(crate) struct Ledger {
    accounts: Vec<Account>,
    /// Length of the padding in a value, in bytes.
    padding: usize,
}

#[derive(Debug)]
struct Account {
    slots: usize,
    begun: AtomicU64,
    acknowledged: AtomicU64,
}

impl Ledger {
    /// Creates a ledger for writers that have not written anything. `slots` has each writer's
    /// number of slots.
    pub(crate) fn new(slots: &[usize], padding: usize) -> Self {
        let account =
            |&slots| Account { slots, begun: AtomicU64::new(0), acknowledged: AtomicU64::new(0) };
        Self { accounts: slots.iter().map(account).collect(), padding }
    }

    /// Returns the number of writers.
    pub(crate) fn writers(&self) -> usize {
        self.accounts.len()
    }

    /// Returns the number of each writer's last acknowledged batch.
    pub(crate) fn acknowledged(&self) -> Numbers {
        self.accounts.iter().map(|account| account.acknowledged.load(Ordering::SeqCst)).collect()
    }

    /// Returns the number of each writer's last started batch.
    pub(crate) fn begun(&self) -> Numbers {
        self.accounts.iter().map(|account| account.begun.load(Ordering::SeqCst)).collect()
    }

    /// Begins the next batch of a writer; `ids` are the IDs of the column families.
    pub(crate) fn begin(&self, writer: usize, ids: &[u32]) -> (u64, WriteBatch) {
        let account = &self.accounts[writer];
        let number = account.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let mut batch = WriteBatch::new();
        for slot in 0..account.slots {
            let mut value = number.to_be_bytes().to_vec();
            if slot == 0 {
                value.extend(self.acknowledged().into_iter().flat_map(u64::to_be_bytes));
            }
            value.resize(value.len() + self.padding, writer as u8);
            let id = ids[family_of(writer, slot)];
            batch.put_cf(id, slot_key(writer, slot), &value).expect("a put");
        }
        let id = ids[family_of(writer, 0)];
        let (old, new) = (token_key(writer, number - 1), token_key(writer, number));
        match number % 3 {
            0 => batch.delete_cf(id, &old),
            1 => batch.single_delete_cf(id, &old),
            _ => batch.delete_range_cf(id, token_key(writer, 0), &new),
        }
        .expect("a deletion");
        batch.put_cf(id, &new, b"").expect("a put");
        (number, batch)
    }

    /// Records that a batch was acknowledged.
    pub(crate) fn acknowledge(&self, writer: usize, number: u64) {
        self.accounts[writer].acknowledged.store(number, Ordering::SeqCst);
    }

    /// Records a batch that a writer in another process reported as acknowledged. That writer may
    /// have started the next batch, too.
    pub(crate) fn recall(&self, writer: usize, number: u64) {
        self.acknowledge(writer, number);
        self.accounts[writer].begun.store(number + 1, Ordering::SeqCst);
    }

    /// Returns the keys of a writer's slots, each with its column family.
    pub(crate) fn slots(&self, writer: usize) -> impl Iterator<Item = (usize, Vec<u8>)> {
        (0..self.accounts[writer].slots)
            .map(move |slot| (family_of(writer, slot), slot_key(writer, slot)))
    }

    /// Checks that `state`, the entries of the column families in `families`, can have existed at a
    /// point in time. Each writer numbers its batches from 1. Returns, for each writer, the number
    /// of its last batch in `state`, or 0 if `state` has none. Returns `None` for a writer whose
    /// keys (slots) are all in other column families.
    pub(crate) fn check(
        &self,
        state: &State,
        families: &[usize],
    ) -> Result<Vec<Option<u64>>, String> {
        let mut known = 0;
        let mut numbers = Vec::new();
        for writer in 0..self.writers() {
            let keys = self.slots(writer).filter(|(family, _)| families.contains(family));
            let mut slots = keys.map(|key| state.get(&key).map_or(0, |value| number_in(value)));
            let number = slots.next();
            if let Some(other) = slots.find(|&other| Some(other) != number) {
                return Err(format!("writer {writer} has {number:?} and {other} in its slots"));
            }
            known += match number {
                None | Some(0) => 0,
                Some(number) => self.check_token(state, families, writer, number)?,
            };
            numbers.push(number);
        }
        if known != state.len() {
            return Err(format!("{} entries where there should be {known}", state.len()));
        }
        for writer in 0..self.writers() {
            self.check_order(state, writer, &numbers)?;
        }
        Ok(numbers)
    }

    /// Checks that `state`, the entries read from the database, contains the token of the writer's
    /// batch `number`, and no other token of the writer. A token is a key that a batch puts and the
    /// writer's next batch deletes. Returns how many entries of `state` belong to the writer.
    fn check_token(
        &self,
        state: &State,
        families: &[usize],
        writer: usize,
        number: u64,
    ) -> Result<usize, String> {
        let slots = self.slots(writer).filter(|(family, _)| families.contains(family)).count();
        let family = family_of(writer, 0);
        if !families.contains(&family) {
            return Ok(slots);
        }
        let tokens = (family, token_key(writer, 0))..(family, token_key(writer, u64::MAX));
        let mut tokens = state.range(tokens).map(|((_, key), _)| key);
        match (tokens.next(), tokens.next()) {
            (Some(token), None) if *token == token_key(writer, number) => Ok(slots + 1),
            tokens => Err(format!("writer {writer} is at {number} and has tokens {tokens:?}")),
        }
    }

    /// Takes the last batch of `writer` in `state`, the entries read from the database. Checks that
    /// `state` contains all batches of other writers that had been acknowledged when this batch was
    /// started.
    fn check_order(
        &self,
        state: &State,
        writer: usize,
        numbers: &[Option<u64>],
    ) -> Result<(), String> {
        let key = (family_of(writer, 0), slot_key(writer, 0));
        let Some(value) = state.get(&key) else { return Ok(()) };
        let (number, seen) = (number_in(value), value[8..].chunks_exact(8));
        for (other, (seen, found)) in seen.map(number_in).zip(numbers).enumerate() {
            if found.is_some_and(|found| found < seen) {
                return Err(format!(
                    "batch {number} of writer {writer} is there, but of writer {other} only \
                     {found:?}, although {seen} was acknowledged before"
                ));
            }
        }
        Ok(())
    }
}

/// Checks `found`, which has for each writer the number of the last batch that was read from the
/// database. The number must be at least the writer's number in `least`, and at most its number in
/// `most`.
pub(crate) fn check_bounds(
    found: &[Option<u64>],
    least: &[u64],
    most: &[u64],
) -> Result<(), String> {
    let mut bounds = found.iter().zip(least.iter().zip(most));
    match bounds
        .find(|(found, (least, most))| found.is_some_and(|found| found < **least || found > **most))
    {
        None => Ok(()),
        Some(wrong) => Err(format!("found, least and most: {wrong:?}")),
    }
}

/// Returns the batch number in a slot's value.
pub(crate) fn number_in(value: &[u8]) -> u64 {
    u64::from_be_bytes(value[..8].try_into().expect("eight bytes"))
}

/// Returns the index of the column family that contains a slot of a writer. The column family of
/// slot 0 also contains the writer's tokens.
fn family_of(writer: usize, slot: usize) -> usize {
    (writer + slot) % FAMILIES.len()
}

fn slot_key(writer: usize, slot: usize) -> Vec<u8> {
    format!("{writer:02}/slot/{slot:03}").into_bytes()
}

fn token_key(writer: usize, number: u64) -> Vec<u8> {
    format!("{writer:02}/token/{number:020}").into_bytes()
}
