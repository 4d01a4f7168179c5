//! Pure: where entries go and which must leave.
