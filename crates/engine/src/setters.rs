//! A macro for the options of single calls.

/// Defines methods of an options struct that set one public field and return the struct, so that
/// options can be given in one expression. An entry is `method(field: parameter type)`.
macro_rules! setters {
    ($options:ident { $($method:ident($field:ident: $value:ty),)+ }) => {
        impl $options {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
                #[must_use]
                pub const fn $method(mut self, $field: $value) -> Self {
                    self.$field = $field;
                    self
                }
            )+
        }
    };
}

pub(crate) use setters;
