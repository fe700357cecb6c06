//! The expected contents of a database, and random steps that change it.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use tailwater_io::Clock;
use tailwater_io::clock::SystemClock;
use tailwater_testkit::dump::Entry;

use crate::random::{self, Operands};
use crate::step::{Durability, Record, Step, Write};

/// Maximum length of a value, in bytes.
const LONGEST: usize = 400;
/// Maximum number of column families.
const FAMILIES: usize = 6;

/// The expected contents of a database.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    families: Vec<Family>,
    /// The options for every new column family.
    new_family: String,
    created: u32,
    /// Whether writes may be unlogged.
    may_skip_log: bool,
}

/// The expected contents of a column family.
#[derive(Debug, Clone)]
struct Family {
    name: String,
    options: String,
    reverse: bool,
    operands: Operands,
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The keys that exist and have been put exactly once, so that a single deletion may delete
    /// them.
    single: BTreeSet<Vec<u8>>,
    next_single: u32,
    /// Whether the column family has writes that are neither logged nor flushed.
    is_at_risk: bool,
}

impl Model {
    /// Creates an empty database with column families of these names and options. One of the names
    /// must be `default`. Column families that are created later get the options of the last one
    /// given here.
    pub(crate) fn new(families: &[(String, String)], may_skip_log: bool) -> Self {
        let new_family = families.last().expect("families").1.clone();
        let families = families.iter().map(|(name, options)| Family::new(name, options)).collect();
        Self { families, new_family, created: 0, may_skip_log }
    }

    /// Returns the column families, with their options.
    pub(crate) fn families(&self) -> Vec<(&str, &str)> {
        self.families.iter().map(|family| (&*family.name, &*family.options)).collect()
    }

    /// Returns every entry, by family name.
    pub(crate) fn dump(&self) -> Vec<Entry> {
        let mut families: Vec<&Family> = self.families.iter().collect();
        families.sort_by(|a, b| a.name.cmp(&b.name));
        families.into_iter().flat_map(Family::dump).collect()
    }

    /// Returns `count` random steps, and applies them to the model.
    pub(crate) fn advance(&mut self, rng: &mut Rng, count: usize) -> Vec<Step> {
        (0..count).map(|_| self.advance_one(rng)).collect()
    }

    /// Applies the writes of a step to the model.
    ///
    /// # Panics
    /// Panics if a write is to a family that does not exist.
    pub(crate) fn apply(&mut self, step: &Step) {
        let Step::Write(writes, _) = step else { panic!("{step:?} is no write") };
        for Write { family, record } in writes {
            let mut families = self.families.iter_mut();
            let family = families.find(|known| known.name == *family).expect("a family");
            family.apply(record);
        }
    }

    /// Returns steps that make those writes durable that are neither logged nor flushed.
    pub(crate) fn settle(&mut self) -> Vec<Step> {
        let at_risk = self.families.iter_mut().filter(|family| family.is_at_risk);
        at_risk
            .map(|family| {
                family.is_at_risk = false;
                Step::Flush(family.name.clone())
            })
            .collect()
    }

    fn advance_one(&mut self, rng: &mut Rng) -> Step {
        let some = rng.usize(..self.families.len());
        match rng.u16(..1000) {
            0..12 => {
                self.families[some].is_at_risk = false;
                Step::Flush(self.families[some].name.clone())
            }
            12..16 if self.families.len() < FAMILIES => {
                // There are few names, so that the name of a dropped column family may be used
                // again.
                let name = format!("family{}", self.created % 4);
                self.created += 1;
                if self.families.iter().any(|family| family.name == name) {
                    return Step::Flush("default".to_owned());
                }
                self.families.push(Family::new(&name, &self.new_family));
                Step::Create(name, self.new_family.clone())
            }
            16..19 if self.families[some].name.starts_with("family") => {
                Step::Drop(self.families.remove(some).name)
            }
            chance => {
                let count = if chance % 12 == 0 { rng.usize(2..30) } else { 1 };
                let durability = match rng.u8(..40) {
                    0 if self.may_skip_log => Durability::Unlogged,
                    1 => Durability::Synced,
                    _ => Durability::Logged,
                };
                let writes = (0..count).map(|_| self.write(rng, durability)).collect();
                Step::Write(writes, durability)
            }
        }
    }

    fn write(&mut self, rng: &mut Rng, durability: Durability) -> Write {
        let some = rng.usize(..self.families.len());
        let family = &mut self.families[some];
        family.is_at_risk |= durability == Durability::Unlogged;
        let record = family.random_record(rng);
        family.apply(&record);
        Write { family: family.name.clone(), record }
    }
}

impl Family {
    fn new(name: &str, options: &str) -> Self {
        let operands = match options {
            _ if options.contains("UInt64AddOperator") => Operands::Numbers,
            _ if options.contains("StringAppendOperator") => Operands::Bytes,
            _ => Operands::None,
        };
        Self {
            name: name.to_owned(),
            options: options.to_owned(),
            reverse: options.contains("ReverseBytewise"),
            operands,
            entries: BTreeMap::new(),
            single: BTreeSet::new(),
            next_single: 0,
            is_at_risk: false,
        }
    }

    fn dump(&self) -> Vec<Entry> {
        let entry = |(key, value): (&Vec<u8>, &Vec<u8>)| Entry {
            family: self.name.clone(),
            key: key.clone(),
            value: value.clone(),
        };
        let entries = self.entries.iter().map(entry);
        if self.reverse { entries.rev().collect() } else { entries.collect() }
    }

    fn random_record(&mut self, rng: &mut Rng) -> Record {
        let key = random::key(rng, random::KEYS);
        match rng.u8(..40) {
            0..5 => Record::Delete(key),
            5 => self.random_range(rng, key),
            6..14 if self.operands != Operands::None => {
                Record::Merge(key, random::operand(rng, self.operands))
            }
            14..17 => {
                let key = format!("single{:06}", self.next_single).into_bytes();
                self.next_single += 1;
                self.single.insert(key.clone());
                Record::Put(key, random::value(rng, LONGEST))
            }
            17..19 if !self.single.is_empty() => {
                let at = rng.usize(..self.single.len());
                let key = self.single.iter().nth(at).expect("one of them").clone();
                self.single.remove(&key);
                Record::SingleDelete(key)
            }
            _ if self.operands == Operands::Numbers => {
                Record::Put(key, random::operand(rng, self.operands))
            }
            19..22 if self.operands != Operands::Numbers => {
                Record::TimedPut(key, random::value(rng, LONGEST), random_time_s(rng))
            }
            _ => Record::Put(key, random::value(rng, LONGEST)),
        }
    }

    /// Returns a range deletion whose range begins or ends at `key`. The range is mostly short, so
    /// that some keys remain.
    fn random_range(&self, rng: &mut Rng, key: Vec<u8>) -> Record {
        let other = match rng.u8(..12) {
            0 => random::key(rng, random::KEYS),
            _ => [&key[..], b"\x02"].concat(),
        };
        let (low, high) = if key <= other { (key, other) } else { (other, key) };
        if self.reverse { Record::DeleteRange(high, low) } else { Record::DeleteRange(low, high) }
    }

    fn apply(&mut self, record: &Record) {
        match record {
            Record::Put(key, value) | Record::TimedPut(key, value, _) => {
                self.entries.insert(key.clone(), value.clone());
            }
            Record::Merge(key, operand) => {
                let merged = merge(self.operands, self.entries.get(key), operand);
                self.entries.insert(key.clone(), merged);
            }
            Record::Delete(key) | Record::SingleDelete(key) => {
                self.entries.remove(key);
            }
            Record::DeleteRange(from, to) => {
                let covered = |key: &Vec<u8>| {
                    if self.reverse { to < key && key <= from } else { from <= key && key < to }
                };
                self.entries.retain(|key, _| !covered(key));
                self.single.retain(|key| !covered(key));
            }
        }
    }
}

/// Returns a random write time. Most of the times are in the last hour, for which the database may
/// know sequence numbers.
fn random_time_s(rng: &mut Rng) -> u64 {
    let now_s = SystemClock.wall_us() / 1_000_000;
    match rng.u8(..10) {
        0 => rng.u64(..),
        1 => rng.u64(..1000),
        2 => now_s + 1,
        _ => now_s - rng.u64(..3600),
    }
}

fn merge(operands: Operands, value: Option<&Vec<u8>>, operand: &[u8]) -> Vec<u8> {
    match (operands, value) {
        (Operands::Numbers, _) => {
            // The merge operator that adds numbers treats a value that is not eight bytes long as
            // zero.
            let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
            let sum = number(operand).wrapping_add(value.map_or(0, |value| number(value)));
            sum.to_le_bytes().to_vec()
        }
        (_, Some(value)) => [value, &b","[..], operand].concat(),
        (_, None) => operand.to_vec(),
    }
}
