//! Integration tests: one target, so that one build serves them all.
