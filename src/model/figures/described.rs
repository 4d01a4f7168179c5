//! Schemas of types whose JSON is that of another. They are made in the tests alone: the program
//! prints the page that came of them.

/// A type, with its parameters before it, whose JSON is that of another.
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
pub(crate) use schema_as;
