//! Files that other programs wrote: published results and their audit, the tree of MLPerf Storage's
//! harness, the output of `iostat`.

#![forbid(unsafe_code)]

pub mod audit;
pub mod iostat;
pub mod mlperf;
