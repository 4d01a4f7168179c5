//! Content of blocks: made from their names, checked against them.
