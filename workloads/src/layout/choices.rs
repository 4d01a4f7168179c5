//! Enums whose variants have a word each and a text that says more.

/// Defines an enum, the word of each of its variants, and the text that the method named after it
/// gives.
macro_rules! choices {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $word:literal: $said:literal,)*
        }
        $(#[$text_meta:meta])*
        fn $text:ident;
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)*
        }

        impl $name {
            /// All variants, in the order of the documentation.
            pub const ALL: [$name; [$($word),*].len()] = [$($name::$variant),*];

            /// The word for the variant, as flags and results have it.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }

            $(#[$text_meta])*
            pub const fn $text(self) -> &'static str {
                match self {
                    $($name::$variant => $said,)*
                }
            }
        }
    };
}

pub(super) use choices;
