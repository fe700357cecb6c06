//! What a program asked of an object although it is not implemented.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tailwater_io::sync::Mutex;

use crate::boundary::{Failure, Outcome};
use crate::database::rocksdb_t;

/// What happens if a setting has another value than its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Results are the same without the setting.
    Nothing,
    /// The database's LOG gets a line.
    Note,
    /// The next call that uses the object fails, because results could differ.
    Refuse,
}

/// The unimplemented settings of an object. Thread-safe.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Whether there is anything that the next call must look at.
    is_set: AtomicBool,
    /// The number of the database whose LOG has the notes, if nothing is refused; 0 for none.
    noted_by: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default, Clone)]
struct State {
    /// The functions without implementation that were called.
    refused: Vec<&'static str>,
    /// The functions without effect that were called.
    noted: Vec<&'static str>,
    invalid: Option<Failure>,
    values: BTreeMap<&'static str, u64>,
}

impl Clone for Marks {
    fn clone(&self) -> Self {
        let state = self.state.lock().clone();
        Self {
            is_set: AtomicBool::new(self.is_set.load(Relaxed)),
            noted_by: AtomicU64::new(0),
            state: Mutex::new(state),
        }
    }
}

impl Marks {
    /// Makes the next call look at the marks.
    fn set(&self) {
        self.noted_by.store(0, Relaxed);
        self.is_set.store(true, Relaxed);
    }

    /// Records the call of a function without implementation.
    pub(crate) fn refuse(&self, function: &'static str) {
        add(&mut self.state.lock().refused, function);
        self.set();
    }

    /// Records the call of a function without effect.
    pub(crate) fn note(&self, function: &'static str) {
        add(&mut self.state.lock().noted, function);
        self.set();
    }

    /// Records a call with an invalid argument.
    pub(crate) fn invalid(&self, failure: Failure) {
        self.state.lock().invalid = Some(failure);
        self.set();
    }

    /// Stores the value of a setting without implementation, under the name of its getter.
    pub(crate) fn store(
        &self,
        function: &'static str,
        setting: &'static str,
        value: u64,
        default: u64,
        effect: Effect,
    ) {
        let mut state = self.state.lock();
        state.values.insert(setting, value);
        let list = match effect {
            Effect::Nothing => return,
            Effect::Note => &mut state.noted,
            Effect::Refuse => &mut state.refused,
        };
        list.retain(|&name| name != function);
        if value != default {
            list.push(function);
            self.set();
        }
    }

    /// Returns the value of a setting without implementation.
    pub(crate) fn stored(&self, setting: &str, default: u64) -> u64 {
        self.state.lock().values.get(setting).copied().unwrap_or(default)
    }

    /// Adds the marks of an object that becomes a part of this one.
    pub(crate) fn add(&self, other: &Self) {
        let other_state = other.state.lock().clone();
        let mut state = self.state.lock();
        other_state.refused.into_iter().for_each(|function| add(&mut state.refused, function));
        other_state.noted.into_iter().for_each(|function| add(&mut state.noted, function));
        state.invalid = other_state.invalid.or(state.invalid.take());
        if other.is_set.load(Relaxed) {
            self.set();
        }
    }

    /// Returns the failure of a call that uses the object, if there is one.
    pub(crate) fn refusal(&self) -> Outcome<()> {
        let state = self.state.lock();
        match (&state.invalid, state.refused.first()) {
            (Some(failure), _) => Err(failure.clone()),
            (None, Some(function)) => Err(Failure::missing(function)),
            (None, None) => Ok(()),
        }
    }

    /// Returns the functions without effect that were called.
    pub(crate) fn notes(&self) -> Vec<&'static str> {
        self.state.lock().noted.clone()
    }

    /// Removes all marks.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        state.refused.clear();
        state.noted.clear();
        state.invalid = None;
        self.is_set.store(false, Relaxed);
    }

    /// Checks the marks before a call on `db` uses the object.
    #[inline]
    pub(crate) fn check(&self, db: &rocksdb_t) -> Outcome<()> {
        if !self.is_set.load(Relaxed) || self.noted_by.load(Relaxed) == db.number {
            return Ok(());
        }
        self.check_set(db)
    }

    #[cold]
    fn check_set(&self, db: &rocksdb_t) -> Outcome<()> {
        db.note(&self.notes());
        self.refusal()?;
        self.noted_by.store(db.number, Relaxed);
        Ok(())
    }

    /// Whether no call has to look at the marks.
    #[inline]
    pub(crate) fn is_clear(&self) -> bool {
        !self.is_set.load(Relaxed)
    }
}

fn add(list: &mut Vec<&'static str>, function: &'static str) {
    if !list.contains(&function) {
        list.push(function);
    }
}

/// An object that records what is not implemented.
pub(crate) trait Marked {
    fn marks(&self) -> &Marks;
}

/// A value of a setting, as it is stored.
pub(crate) trait Stored: Copy {
    fn to_bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

macro_rules! stored {
    ($($type:ty),*) => {
        $(impl Stored for $type {
            fn to_bits(self) -> u64 {
                self as u64
            }

            fn from_bits(bits: u64) -> Self {
                bits as Self
            }
        })*
    };
}

stored!(i32, u32, i64, u64, usize);

/// A flag: any nonzero byte is true.
impl Stored for u8 {
    fn to_bits(self) -> u64 {
        (self != 0).into()
    }

    fn from_bits(bits: u64) -> Self {
        (bits != 0).into()
    }
}

impl Stored for f64 {
    fn to_bits(self) -> u64 {
        f64::to_bits(self)
    }

    fn from_bits(bits: u64) -> Self {
        f64::from_bits(bits)
    }
}

/// Stores the value of a setting of the function `names[0]`, under the name `names[1]`.
pub(crate) fn store<T: Stored>(
    marks: &Marks,
    [function, setting]: [&'static str; 2],
    value: T,
    default: T,
    effect: Effect,
) {
    marks.store(function, setting, value.to_bits(), default.to_bits(), effect);
}

/// Returns the value of a setting.
pub(crate) fn fetch<T: Stored>(marks: &Marks, setting: &str, default: T) -> T {
    T::from_bits(marks.stored(setting, default.to_bits()))
}
