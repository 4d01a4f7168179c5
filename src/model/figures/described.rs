//! Which types a schema can be made of. One is made in the tests alone: the program prints the page
//! that came of it.

/// Types from which a schema can be made.
#[cfg(any(test, feature = "testing"))]
pub trait Described: schemars::JsonSchema {}
#[cfg(any(test, feature = "testing"))]
impl<T: schemars::JsonSchema> Described for T {}

/// Any type: no schema is made outside the tests.
#[cfg(not(any(test, feature = "testing")))]
pub trait Described {}
#[cfg(not(any(test, feature = "testing")))]
impl<T> Described for T {}

/// A type, with its parameters before it, whose JSON is that of another.
#[cfg(any(test, feature = "testing"))]
macro_rules! schema_as {
    ({ $($parameters:tt)* } $name:ty => $other:ty) => {
        impl<$($parameters)*> schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                <$other as schemars::JsonSchema>::schema_name()
            }
            fn schema_id() -> std::borrow::Cow<'static, str> {
                <$other as schemars::JsonSchema>::schema_id()
            }
            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                generator.subschema_for::<$other>()
            }
        }
    };
}
#[cfg(any(test, feature = "testing"))]
pub(crate) use schema_as;
