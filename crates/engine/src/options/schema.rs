//! Declares a group of options as a table, from which all code that handles these options is
//! generated.
//!
//! A row of the table holds a field's documentation, name, type and default, whether it can be
//! changed while the database is open, and a [`Verdict`], which states the effect of setting it.
//! From the rows, [`option_table`] generates the struct, its `Default`, and the [`OptionTable`]
//! that is used to read, write and check options. Rows are in the order in which RocksDB writes the
//! options.

use tailwater_format::options_text::parse_option_string;

use super::error::{Error, Problem, Result, nearest};

/// The time at which an option can be changed, and whether it is written to the OPTIONS file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutability {
    /// Only when the database is opened.
    Fixed,
    /// Also while it is open.
    Mutable,
    /// Only when the database is opened; it is not written to the OPTIONS file.
    Unwritten,
    /// Also while it is open; it is not written to the OPTIONS file.
    MutableUnwritten,
}

impl Mutability {
    /// Whether the option can be changed while the database is open.
    pub fn is_mutable(self) -> bool {
        matches!(self, Self::Mutable | Self::MutableUnwritten)
    }

    /// Whether the option is written to the OPTIONS file.
    pub fn is_written(self) -> bool {
        matches!(self, Self::Fixed | Self::Mutable)
    }
}

/// The effect of setting an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The option does what its documentation says.
    Honoured,
    /// Any value is accepted and has no effect, for this reason.
    NoEffect(&'static str),
    /// The option is refused, for this reason, unless its text is one of these values, which
    /// disable it.
    Refused(&'static str, &'static [&'static str]),
}

/// An option of the group `T`.
pub struct OptionInfo<T: 'static> {
    /// RocksDB's name.
    pub name: &'static str,
    /// Its documentation.
    pub about: &'static str,
    /// The time at which it can be changed.
    pub mutability: Mutability,
    /// The effect of setting it.
    pub verdict: Verdict,
    pub(super) set: fn(&mut T, &str) -> Result<()>,
    pub(super) set_part: fn(&mut T, &str, &str) -> Result<()>,
    pub(super) print: fn(&T) -> String,
}

impl<T: 'static> OptionInfo<T> {
    /// Returns the text of this option's value in a group.
    pub fn value_in(&self, options: &T) -> String {
        (self.print)(options)
    }
}

/// An alias of an option.
pub struct OtherName<T: 'static> {
    /// The name.
    pub name: &'static str,
    pub(super) set: fn(&mut T, &str) -> Result<()>,
}

/// A group of options that is declared as a table.
pub trait OptionTable: Sized + 'static {
    /// Returns the options, in the order in which they are written.
    fn table() -> &'static [OptionInfo<Self>];

    /// Returns the aliases of the options.
    fn other_names() -> &'static [OtherName<Self>];

    /// Returns names that RocksDB still accepts, with any value, but ignores.
    fn retired_names() -> &'static [&'static str];

    /// Returns all names of options, including aliases.
    fn names() -> impl Iterator<Item = &'static str> {
        Self::table()
            .iter()
            .map(|info| info.name)
            .chain(Self::other_names().iter().map(|other| other.name))
    }

    /// Whether `name` is an option or alias, or a part of one, such as `compression_opts.level`.
    fn knows(name: &str) -> bool {
        let whole = name.split_once('.').map_or(name, |(whole, _)| whole);
        Self::names().any(|known| known == whole)
    }

    /// Sets one option. A name with a dot denotes a part of an option: `compression_opts.level`.
    ///
    /// # Errors
    /// An unknown name, or an invalid value.
    fn set_option(&mut self, name: &str, text: &str) -> Result<()> {
        if let Some(info) = Self::table().iter().find(|info| info.name == name) {
            return (info.set)(self, text).map_err(|error| error.within(name));
        }
        if let Some(other) = Self::other_names().iter().find(|other| other.name == name) {
            return (other.set)(self, text).map_err(|error| error.within(name));
        }
        if Self::retired_names().contains(&name) {
            return Ok(());
        }
        let (whole, part) = name.split_once('.').unwrap_or((name, ""));
        match Self::table().iter().find(|info| info.name == whole) {
            Some(info) if !part.is_empty() => {
                (info.set_part)(self, part, text).map_err(|error| error.within(whole))
            }
            _ => Err(Error::new(name, Problem::Unknown { nearest: nearest(name, Self::names()) })),
        }
    }

    /// Sets one option of a database that is open.
    ///
    /// # Errors
    /// The errors of [`OptionTable::set_option`], and an option that cannot be changed while the
    /// database is open.
    fn set_mutable_option(&mut self, name: &str, text: &str) -> Result<()> {
        let whole = name.split_once('.').map_or(name, |(whole, _)| whole);
        match Self::table().iter().find(|info| info.name == whole) {
            Some(info) if !info.mutability.is_mutable() => Err(Error::new(name, Problem::Fixed)),
            _ => self.set_option(name, text),
        }
    }

    /// Sets the options of an option string, such as `a=1;b={c=2}`.
    ///
    /// # Errors
    /// A malformed option string, and the errors of [`OptionTable::set_option`]; `self` is then
    /// partly changed.
    fn set_options(&mut self, text: &str) -> Result<()> {
        for assignment in parse_option_string(text)? {
            self.set_option(assignment.name, assignment.value)?;
        }
        Ok(())
    }

    /// Returns the names and values of all options that are written and whose text is not empty, in
    /// the order in which they are written.
    fn print_options(&self) -> impl Iterator<Item = (&'static str, String)> {
        Self::table()
            .iter()
            .filter(|info| info.mutability.is_written())
            .map(|info| (info.name, (info.print)(self)))
            .filter(|(_, text)| !text.is_empty())
    }

    /// Returns the options that differ from `defaults` and have no effect: name, value and reason.
    fn without_effect(
        &self,
        defaults: &Self,
    ) -> impl Iterator<Item = (&'static str, String, &'static str)> {
        Self::table().iter().filter_map(move |info| match info.verdict {
            Verdict::NoEffect(why) => {
                let (value, default) = ((info.print)(self), (info.print)(defaults));
                (value != default).then_some((info.name, value, why))
            }
            _ => None,
        })
    }

    /// Checks that no option is set to a refused value.
    ///
    /// # Errors
    /// The first option with a refused value.
    fn check_verdicts(&self) -> Result<()> {
        for info in Self::table() {
            if let Verdict::Refused(why, off) = info.verdict {
                let value = (info.print)(self);
                if !off.contains(&value.as_str()) {
                    return Err(Error::refused(&value, why).within(info.name));
                }
            }
        }
        Ok(())
    }

    /// Checks that a group that replaces this one while the database is open differs from it only
    /// in options that can then be changed.
    ///
    /// # Errors
    /// The first other option that differs.
    fn check_fixed(&self, after: &Self) -> Result<()> {
        let fixed = Self::table().iter().filter(|info| !info.mutability.is_mutable());
        let mut changed = fixed.filter(|info| (info.print)(self) != (info.print)(after));
        changed.next().map_or(Ok(()), |info| Err(Error::new(info.name, Problem::Fixed)))
    }

    /// Returns the options in which two groups differ: name, value in `self`, value in `other`.
    fn differences<'a>(
        &'a self,
        other: &'a Self,
    ) -> impl Iterator<Item = (&'static str, String, String)> + 'a {
        Self::table()
            .iter()
            .map(move |info| (info.name, (info.print)(self), (info.print)(other)))
            .filter(|(_, here, there)| here != there)
    }
}

/// Declares a group of options; see the module documentation. A row may end with a function that
/// prints the value. `elsewhere` declares fields that are not themselves options.
macro_rules! option_table {
    (
        $(#[$meta:meta])*
        pub struct $group:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident $(as $text:literal)? : $type:ty = $default:expr, $mutability:ident,
                    $verdict:expr $(, $print:path)?;
            )*
        }
        elsewhere {
            $(
                $(#[doc = $other_doc:literal])+
                $other_field:ident : $other_type:ty = $other_default:expr;
            )*
        }
        other_names { $($other:literal => $set:expr;)* }
        retired { $($retired:literal)* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $group {
            $($(#[doc = $doc])+ pub $field: $type,)*
            $($(#[doc = $other_doc])+ pub $other_field: $other_type,)*
        }

        impl Default for $group {
            /// RocksDB's defaults.
            fn default() -> Self {
                Self { $($field: $default,)* $($other_field: $other_default,)* }
            }
        }

        impl $crate::options::OptionTable for $group {
            fn table() -> &'static [$crate::options::OptionInfo<Self>] {
                use $crate::options::Verdict::*;
                use $crate::options::value::OptionValue;
                static TABLE: &[$crate::options::OptionInfo<$group>] = &[
                    $($crate::options::OptionInfo {
                        name: option_name!($field $($text)?),
                        about: concat!($($doc),+),
                        mutability: $crate::options::Mutability::$mutability,
                        verdict: $verdict,
                        set: |options, text| OptionValue::set(&mut options.$field, text),
                        set_part: |options, part, text| {
                            OptionValue::set_part(&mut options.$field, part, text)
                        },
                        print: |options| option_print!(&options.$field $(, $print)?),
                    },)*
                ];
                TABLE
            }

            fn other_names() -> &'static [$crate::options::OtherName<Self>] {
                static OTHER_NAMES: &[$crate::options::OtherName<$group>] = &[
                    $($crate::options::OtherName { name: $other, set: $set },)*
                ];
                OTHER_NAMES
            }

            fn retired_names() -> &'static [&'static str] {
                &[$($retired),*]
            }
        }
    };
}

/// The text of a value, printed by its type or by the given function.
macro_rules! option_print {
    ($value:expr) => {
        OptionValue::print($value)
    };
    ($value:expr, $print:path) => {
        $print($value)
    };
}

/// The name of a field's option: the field's name, or the given one.
macro_rules! option_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $text:literal) => {
        $text
    };
}

/// Makes a group of options the value of one option: `{a=1;b=2;}`. The given function parses a text
/// without `=`.
macro_rules! group_value {
    ($group:ty, $without_names:expr) => {
        impl $crate::options::value::OptionValue for $group {
            fn set(&mut self, text: &str) -> $crate::options::Result<()> {
                if text.contains('=') {
                    return $crate::options::OptionTable::set_options(self, text);
                }
                let set: fn(&mut Self, &str) -> $crate::options::Result<()> = $without_names;
                set(self, tailwater_format::options_text::strip_outer_braces(text))
            }

            fn set_part(&mut self, part: &str, text: &str) -> $crate::options::Result<()> {
                $crate::options::OptionTable::set_option(self, part, text)
            }

            fn print(&self) -> String {
                let mut printed = String::from("{");
                for info in <$group as $crate::options::OptionTable>::table() {
                    printed.extend([info.name, "=", &(info.print)(self), ";"]);
                }
                printed.push('}');
                printed
            }
        }
    };
}
