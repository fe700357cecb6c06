//! Parsing and printing of option values.
//!
//! Numbers may end in `k`, `m`, `g` or `t`, in lower or upper case, which denote powers of 1024.
//! Two kinds of text are refused: an unsigned number with a sign before it, and any number with
//! other text after it. RocksDB accepts both, but reads another number than the user may expect.

use tailwater_format::options_text::{escape, split_list, strip_outer_braces, unescape};

use super::error::{Error, Result};

/// The kind of an option's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueKind {
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Integer {
        /// The lowest number, below 0 for a signed type.
        min: i128,
        /// The highest number.
        max: i128,
    },
    /// A finite 64-bit floating-point number.
    Float,
    /// Any text.
    String,
    /// One of these names.
    Enum(&'static [&'static str]),
    /// A list of values of a kind.
    List(&'static Self),
    /// A group of options, itself an [`OptionTable`](super::OptionTable).
    Group,
    /// The name of an object, such as a comparator, or its name and options.
    Object,
}

/// A type of option values.
pub trait OptionValue {
    /// The kind of the values.
    const KIND: ValueKind;

    /// Sets the value from `text`. For a group of options, sets only the options that `text` names.
    /// If `text` is refused, `self` may be partly changed.
    ///
    /// # Errors
    /// If `text` is not a value of this type.
    fn set(&mut self, text: &str) -> Result<()>;

    /// Sets one part of a group of options, for instance `level` of `compression_opts`.
    ///
    /// # Errors
    /// If there is no such part, this type is not a group of options, or `text` is not a value of
    /// the part.
    fn set_part(&mut self, part: &str, text: &str) -> Result<()> {
        let _ = text;
        Err(Error::new(part, super::error::Problem::Unknown { nearest: None }))
    }

    /// Returns the value's text in an OPTIONS file.
    fn print(&self) -> String;
}

impl OptionValue for bool {
    const KIND: ValueKind = ValueKind::Bool;

    fn set(&mut self, text: &str) -> Result<()> {
        *self = match strip_outer_braces(text) {
            "true" | "1" => true,
            "false" | "0" => false,
            _ => return Err(Error::malformed(text, "true or false")),
        };
        Ok(())
    }

    fn print(&self) -> String {
        self.to_string()
    }
}

/// Parses a number with an optional sign and an optional suffix `k`, `m`, `g` or `t`.
fn parse_number(text: &str) -> Option<i128> {
    let text = strip_outer_braces(text);
    let (digits, shift) = match text.bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 10),
        b'm' | b'M' => (&text[..text.len() - 1], 20),
        b'g' | b'G' => (&text[..text.len() - 1], 30),
        b't' | b'T' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    // 128 bits are enough for any 64-bit number with any suffix.
    digits.parse::<i128>().ok()?.checked_mul(1 << shift)
}

macro_rules! number_value {
    ($($type:ty: $expected:literal),*) => {
        $(impl OptionValue for $type {
            const KIND: ValueKind =
                ValueKind::Integer { min: Self::MIN as i128, max: Self::MAX as i128 };

            fn set(&mut self, text: &str) -> Result<()> {
                let number = parse_number(text).and_then(|number| Self::try_from(number).ok());
                *self = number.ok_or_else(|| Error::malformed(text, $expected))?;
                Ok(())
            }

            fn print(&self) -> String {
                self.to_string()
            }
        })*
    };
}

number_value! {
    u8: "a number from 0 to 255",
    i32: "a whole number of 32 bits",
    u32: "a whole number of 32 bits without a sign",
    i64: "a whole number of 64 bits",
    u64: "a whole number of 64 bits without a sign"
}

impl OptionValue for f64 {
    const KIND: ValueKind = ValueKind::Float;

    fn set(&mut self, text: &str) -> Result<()> {
        let number = strip_outer_braces(text).parse::<Self>().ok();
        *self = number
            .filter(|number| number.is_finite())
            .ok_or_else(|| Error::malformed(text, "a number"))?;
        Ok(())
    }

    fn print(&self) -> String {
        format!("{self:.6}")
    }
}

impl OptionValue for String {
    const KIND: ValueKind = ValueKind::String;

    fn set(&mut self, text: &str) -> Result<()> {
        *self = unescape(strip_outer_braces(text));
        Ok(())
    }

    fn print(&self) -> String {
        escape(self)
    }
}

/// A list. Its items are separated by `:`. An item that contains a `:` is in braces.
impl<T: OptionValue + Default> OptionValue for Vec<T> {
    const KIND: ValueKind = ValueKind::List(&T::KIND);

    fn set(&mut self, text: &str) -> Result<()> {
        let mut items = Self::new();
        for item in split_list(text, ':')? {
            let mut value = T::default();
            value.set(item)?;
            items.push(value);
        }
        *self = items;
        Ok(())
    }

    fn print(&self) -> String {
        let mut printed = Vec::new();
        for item in self.iter().map(OptionValue::print) {
            printed.push(if item.contains(':') { format!("{{{item}}}") } else { item });
        }
        let list = printed.join(":");
        let needs_braces = list.contains('=') || (printed.len() > 1 && list.starts_with('{'));
        if needs_braces { format!("{{{list}}}") } else { list }
    }
}
