//! Declares a group of options as a table, from which all code that handles these options is
//! generated.
//!
//! A row of the table declares one option: its documentation, name, type and default, whether it
//! can be changed while the database is open, and a [`Verdict`], which states what effect it has.
//! From the rows, [`option_table`] generates the struct, its `Default` implementation, and the
//! [`OptionTable`] implementation that reads, writes and checks the options. Rows are in the order
//! in which RocksDB writes the options to an OPTIONS file.

use std::fmt;

use tailwater_format::options_text::parse_option_string;

use super::error::{Error, Problem, Result, nearest};
use super::value::ValueKind;

/// When an option can be changed, and whether it is written to the OPTIONS file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mutability {
    /// The option can be set only when the database is opened.
    Fixed,
    /// The option can be set when the database is opened, and changed while it is open.
    Mutable,
    /// The option can be set only when the database is opened. It is not written to the OPTIONS
    /// file.
    Unwritten,
    /// The option can be set when the database is opened, and changed while it is open. It is not
    /// written to the OPTIONS file.
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

/// The effect that setting an option has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The option does what its documentation says.
    Honoured,
    /// Any value is accepted, but has no effect. The field is the reason.
    NoEffect(&'static str),
    /// The option is not supported. Only values that disable it are accepted. The fields are the
    /// reason, and the texts of the accepted values.
    Refused(&'static str, &'static [&'static str]),
}

/// The description of one option of the group of options `T`.
pub struct OptionInfo<T: 'static> {
    /// The name in RocksDB.
    pub name: &'static str,
    /// The documentation of the option.
    pub about: &'static str,
    /// The kind of the option's values.
    pub kind: ValueKind,
    /// When the option can be changed, and whether it is written to the OPTIONS file.
    pub mutability: Mutability,
    /// The effect of setting the option.
    pub verdict: Verdict,
    pub(super) set: fn(&mut T, &str) -> Result<()>,
    pub(super) set_part: fn(&mut T, &str, &str) -> Result<()>,
    pub(super) print: fn(&T) -> String,
}

impl<T: 'static> OptionInfo<T> {
    /// Returns the text of this option's value in `options`.
    pub fn value_in(&self, options: &T) -> String {
        (self.print)(options)
    }
}

impl<T: 'static> fmt::Debug for OptionInfo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OptionInfo")
            .field("name", &self.name)
            .field("mutability", &self.mutability)
            .field("verdict", &self.verdict)
            .finish_non_exhaustive()
    }
}

/// An alias: another name that sets an option of the group `T`.
pub struct OtherName<T: 'static> {
    /// The alias, as written in option strings.
    pub name: &'static str,
    pub(super) set: fn(&mut T, &str) -> Result<()>,
}

impl<T: 'static> fmt::Debug for OtherName<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtherName").field("name", &self.name).finish_non_exhaustive()
    }
}

pub(crate) mod sealed {
    /// Only macro `option_table!` makes a type an option table.
    #[expect(unnameable_types, reason = "seals the traits that require it")]
    pub trait Sealed {}
}

/// A group of options. Macro `option_table!` declares it as a table with one row for each option.
/// The trait is sealed.
pub trait OptionTable: sealed::Sealed + Sized + 'static {
    /// Returns the options, in the order in which they are written.
    fn table() -> &'static [OptionInfo<Self>];

    /// Returns the aliases of the options.
    fn other_names() -> &'static [OtherName<Self>];

    /// Returns names of former options. RocksDB still accepts them with any value, and ignores
    /// them.
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

    /// Sets one option. A name with a dot, such as `compression_opts.level`, selects a part of an
    /// option.
    ///
    /// # Errors
    /// For an unknown name, or an invalid value.
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
    /// The errors of [`OptionTable::set_option`]. Also an error for an option that cannot be
    /// changed while the database is open.
    fn set_mutable_option(&mut self, name: &str, text: &str) -> Result<()> {
        let whole = name.split_once('.').map_or(name, |(whole, _)| whole);
        match Self::table().iter().find(|info| info.name == whole) {
            Some(info) if !info.mutability.is_mutable() => Err(Error::new(name, Problem::Fixed)),
            _ => self.set_option(name, text),
        }
    }

    /// Sets the options that an option string names, such as `a=1;b={c=2}`.
    ///
    /// # Errors
    /// For a malformed option string, and the errors of [`OptionTable::set_option`]. Options before
    /// the one that failed have then been set.
    fn set_from_string(&mut self, text: &str) -> Result<()> {
        for assignment in parse_option_string(text)? {
            self.set_option(assignment.name, assignment.value)?;
        }
        Ok(())
    }

    /// Returns the name and text of each option that is written to the OPTIONS file, in the order
    /// in which they are written. Omits options whose text is empty.
    fn print_options(&self) -> impl Iterator<Item = (&'static str, String)> {
        Self::table()
            .iter()
            .filter(|info| info.mutability.is_written())
            .map(|info| (info.name, (info.print)(self)))
            .filter(|(_, text)| !text.is_empty())
    }

    /// Returns the options that have no effect and differ from `defaults`: name, value, and the
    /// reason why the option has no effect.
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

    /// Checks that no option has a value that its [`Verdict`] refuses.
    ///
    /// # Errors
    /// For the first option with a refused value.
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

    /// Checks that `after` differs from `self` only in options that can be changed while the
    /// database is open.
    ///
    /// # Errors
    /// For the first other option that differs.
    fn check_fixed(&self, after: &Self) -> Result<()> {
        let fixed = Self::table().iter().filter(|info| !info.mutability.is_mutable());
        let mut changed = fixed.filter(|info| (info.print)(self) != (info.print)(after));
        changed.next().map_or(Ok(()), |info| Err(Error::new(info.name, Problem::Fixed)))
    }

    /// Returns the options that differ between two groups: name, value in `self`, value in `other`.
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

/// Declares a group of options; see the module documentation. A row may end with the name of a
/// function that prints the value. The part `elsewhere` declares further fields of the struct,
/// which have no row in the table of options.
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
        #[non_exhaustive]
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

        impl $crate::options::schema::sealed::Sealed for $group {}

        impl $crate::options::OptionTable for $group {
            fn table() -> &'static [$crate::options::OptionInfo<Self>] {
                use $crate::options::Verdict::*;
                use $crate::options::value::OptionValue;
                static TABLE: &[$crate::options::OptionInfo<$group>] = &[
                    $($crate::options::OptionInfo {
                        name: option_name!($field $($text)?),
                        about: concat!($($doc),+),
                        kind: <$type as OptionValue>::KIND,
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

/// Returns the text of a value, printed by its type or, if one is given, by a function.
macro_rules! option_print {
    ($value:expr) => {
        OptionValue::print($value)
    };
    ($value:expr, $print:path) => {
        $print($value)
    };
}

/// Returns the name of a field's option: the name that is given or, without one, the field's own.
macro_rules! option_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $text:literal) => {
        $text
    };
}

/// Makes a group of options usable as the value of one option, with the text `{a=1;b=2;}`. The
/// function `$without_names` parses a text that does not contain `=`.
macro_rules! group_value {
    ($group:ty, $without_names:expr) => {
        impl $crate::options::value::OptionValue for $group {
            const KIND: $crate::options::ValueKind = $crate::options::ValueKind::Group;

            fn set(&mut self, text: &str) -> $crate::options::Result<()> {
                if text.contains('=') {
                    return $crate::options::OptionTable::set_from_string(self, text);
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
