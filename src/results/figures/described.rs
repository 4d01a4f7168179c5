//! Which types a schema can be made of. One is made in the tests alone: the program prints the page
//! that came of it.

/// Types from which a schema can be made.
#[cfg(test)]
pub trait Described: schemars::JsonSchema {}
#[cfg(test)]
impl<T: schemars::JsonSchema> Described for T {}

/// Any type: no schema is made outside the tests.
#[cfg(not(test))]
pub trait Described {}
#[cfg(not(test))]
impl<T> Described for T {}

/// A type, with its parameters before it, whose JSON is that of another.
#[cfg(test)]
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
#[cfg(test)]
pub(crate) use schema_as;
