//! The program: parse, run, exit status.

fn main() {}
