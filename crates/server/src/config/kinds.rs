//! The kinds of values: how a text is checked and converted, and how a value is shown.

use std::ffi::OsStr;
use std::fmt::Display;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use toml::Value;

use super::sources::Given;
use super::units::{Bound, format_duration, format_size, parse_bound, parse_duration, parse_size};
use super::{Result, keys};

/// A kind of values that are stored as `T`.
pub(super) trait Kind<T> {
    /// Returns the value that the given text denotes.
    fn read(&self, given: &Given) -> Result<T>;

    /// Returns the value as it is written to a configuration file.
    fn show(&self, value: &T) -> Value;
}

/// `true` or `false`.
pub(super) struct Switch;

impl Kind<bool> for Switch {
    fn read(&self, given: &Given) -> Result<bool> {
        let word = given.text.trim().to_lowercase();
        word.parse().map_err(|_| given.refuse("true or false"))
    }

    fn show(&self, value: &bool) -> Value {
        Value::Boolean(*value)
    }
}

/// One of the words in the list, whose description is the second field. Of several words for one
/// value, the first is shown.
pub(super) struct Word<T: 'static>(
    pub(super) &'static [(&'static str, T)],
    pub(super) &'static str,
);

impl<T: Copy + PartialEq> Kind<T> for Word<T> {
    fn read(&self, given: &Given) -> Result<T> {
        let word = given.text.trim().to_lowercase();
        let found = self.0.iter().find(|(known, _)| *known == word);
        found.map(|(_, value)| *value).ok_or_else(|| given.refuse(self.1))
    }

    fn show(&self, value: &T) -> Value {
        let found = self.0.iter().find(|(_, known)| known == value);
        Value::from(found.map_or("", |(word, _)| *word))
    }
}

/// A number in a range.
pub(super) struct Number<T>(pub(super) RangeInclusive<T>);

impl<T: Copy + Display + FromStr + PartialOrd + TryInto<i64>> Kind<T> for Number<T> {
    fn read(&self, given: &Given) -> Result<T> {
        let number = given.text.trim().parse::<T>().ok().filter(|number| self.0.contains(number));
        let (start, end) = (self.0.start(), self.0.end());
        number.ok_or_else(|| given.refuse(&format!("a number from {start} to {end}")))
    }

    fn show(&self, value: &T) -> Value {
        Value::Integer((*value).try_into().unwrap_or(i64::MAX))
    }
}

/// A size in bytes that is at least the given one.
pub(super) struct Size(pub(super) u64);

impl<T: Copy + TryFrom<u64> + TryInto<u64>> Kind<T> for Size {
    fn read(&self, given: &Given) -> Result<T> {
        let Some(bytes) = parse_size(&given.text).filter(|bytes| *bytes >= self.0) else {
            let least = format_size(self.0);
            return Err(given.refuse(&format!("a size of at least {least}, such as \"64 MiB\"")));
        };
        T::try_from(bytes).map_err(|_| given.refuse("a size that this machine can address"))
    }

    fn show(&self, value: &T) -> Value {
        Value::from(format_size((*value).try_into().unwrap_or(u64::MAX)))
    }
}

/// A duration above zero.
pub(super) struct Interval;

impl Kind<Duration> for Interval {
    fn read(&self, given: &Given) -> Result<Duration> {
        let duration = parse_duration(&given.text).filter(|span| !span.is_zero());
        duration.ok_or_else(|| given.refuse("a duration above zero: \"30s\" or \"1 m\""))
    }

    fn show(&self, value: &Duration) -> Value {
        Value::from(format_duration(*value))
    }
}

/// A limit on a size or an age; `None` for "unlimited" and for zero.
pub(super) struct Limit<T> {
    parse: fn(&str) -> Option<T>,
    format: fn(T) -> String,
}

pub(super) const SIZE_LIMIT: Limit<u64> = Limit { parse: parse_size, format: format_size };
pub(super) const AGE_LIMIT: Limit<Duration> =
    Limit { parse: parse_duration, format: format_duration };

impl<T: Copy + Default + PartialEq> Kind<Option<T>> for Limit<T> {
    fn read(&self, given: &Given) -> Result<Option<T>> {
        let bound = match parse_bound(&given.text, self.parse) {
            Some(Bound::Default) => parse_bound(keys::default(&given.path), self.parse),
            bound => bound,
        };
        match bound {
            Some(Bound::At(limit)) => Ok((limit != T::default()).then_some(limit)),
            Some(Bound::Unlimited | Bound::Default) => Ok(None),
            None => Err(given.refuse("\"unlimited\", or a value such as \"10 GiB\" or \"7 days\"")),
        }
    }

    fn show(&self, value: &Option<T>) -> Value {
        Value::from(value.map_or_else(|| "unlimited".to_owned(), self.format))
    }
}

/// A path or another text that is not empty.
pub(super) struct Filled;

impl<T: From<String> + AsRef<OsStr>> Kind<T> for Filled {
    fn read(&self, given: &Given) -> Result<T> {
        match given.text.trim() {
            "" => Err(given.error("empty, but required".to_owned())),
            _ => Ok(T::from(given.text.clone())),
        }
    }

    fn show(&self, value: &T) -> Value {
        Value::from(&*value.as_ref().to_string_lossy())
    }
}

/// The address of a port.
pub(super) struct Address;

impl Kind<SocketAddr> for Address {
    fn read(&self, given: &Given) -> Result<SocketAddr> {
        // The name of a host is resolved.
        let resolved = given.text.trim().to_socket_addrs().ok();
        let address = resolved.and_then(|mut addresses| addresses.next());
        address.ok_or_else(|| given.refuse("HOST:PORT, such as \"127.0.0.1:8090\""))
    }

    fn show(&self, value: &SocketAddr) -> Value {
        Value::from(value.to_string())
    }
}
