//! Declaration of the sections of a file below `workload`: figures, each with its default.

/// Declares such a section: its figures, which a file may leave out, as fields.
macro_rules! figures {
    (
        $(#[$of_all:meta])*
        pub struct $name:ident {
            $($(#[doc = $doc:literal])+ pub $key:ident: $type:ty = $default:expr,)+
        }
    ) => {
        $(#[$of_all])*
        #[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $key: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($key: $default,)+ }
            }
        }
    };
}

pub(super) use figures;
