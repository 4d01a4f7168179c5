//! Enums whose variants have names.

/// Defines an enum each of whose variants has a name, as people or scripts read it.
#[macro_export]
macro_rules! named {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)*
        }
    ) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $(#[$meta])*
        pub enum $name {
            $($(#[$variant_meta])* $variant,)*
        }

        impl $name {
            /// All variants, in the order of their declaration.
            pub const ALL: [$name; [$($text),*].len()] = [$($name::$variant),*];

            /// The name of the variant, as people or scripts read it.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }
    };
}
