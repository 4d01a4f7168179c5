//! The NUMA nodes on which memory is used, and memory spread over them.

#![allow(unsafe_code, reason = "system calls for which no crate of ours has a function")]

use std::sync::atomic::{AtomicU64, Ordering};

use super::Mapping;

/// The NUMA nodes of some threads: of those up to number 63, which is more than machines have.
#[derive(Debug, Default)]
pub struct NumaNodes(AtomicU64);

impl NumaNodes {
    /// Adds the node on which the calling thread runs.
    pub fn add_this_thread(&self) {
        let mut node: libc::c_uint = 0;
        let nowhere = std::ptr::null_mut::<libc::c_uint>();
        // SAFETY: the kernel writes one number, to `node`; it knows of no cache any more.
        let rc = unsafe { libc::syscall(libc::SYS_getcpu, nowhere, &raw mut node, nowhere) };
        if rc == 0
            && let Some(bit) = 1u64.checked_shl(node)
        {
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Has a range of a mapping, none of which has memory yet, get it from these nodes in turn,
    /// whichever thread touches it first. Changes nothing while no node is known.
    ///
    /// # Errors
    /// `ENOSYS` or `EPERM` where the kernel or a container has no such system call. The memory then
    /// comes from the node of the thread that touches it.
    pub fn spread(&self, mapping: &Mapping, offset: usize, length: usize) -> std::io::Result<()> {
        let nodes = self.0.load(Ordering::Relaxed);
        if nodes == 0 || length == 0 {
            return Ok(());
        }
        let start = mapping.range_ptr(offset, length);
        // The kernel takes one from the number of bits.
        let bits = u64::BITS as libc::c_ulong + 1;
        let mode = libc::MPOL_INTERLEAVE as libc::c_long;
        // SAFETY: the range is inside the mapping, and where its pages will be changes no byte; the
        // mask is read during the call.
        let rc = unsafe {
            libc::syscall(libc::SYS_mbind, start, length, mode, &raw const nodes, bits, 0)
        };
        if rc == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `MPOL_F_ADDR` of get_mempolicy(2): the policy of the memory at an address.
    const AT_ADDRESS: libc::c_ulong = 1 << 1;

    /// Policy of the memory at an address, and the nodes that it names.
    fn policy(at: *const u8) -> (libc::c_int, u64) {
        let (mut mode, mut nodes): (libc::c_int, u64) = (-1, 0);
        let bits = u64::BITS as libc::c_ulong + 1;
        // SAFETY: the kernel writes a number and a mask of 64 bits.
        let rc = unsafe {
            let (mode, nodes) = (&raw mut mode, &raw mut nodes);
            libc::syscall(libc::SYS_get_mempolicy, mode, nodes, bits, at, AT_ADDRESS)
        };
        assert_eq!(rc, 0, "{}", std::io::Error::last_os_error());
        (mode, nodes)
    }

    #[test]
    fn memory_comes_from_the_nodes_of_the_threads_that_use_it() {
        const HALF: usize = 2 << 20;
        let mapping = Mapping::closed(2 * HALF).unwrap();
        let nodes = NumaNodes::default();
        nodes.spread(&mapping, HALF, HALF).unwrap();
        nodes.add_this_thread();
        let known = nodes.0.load(Ordering::Relaxed);
        assert_eq!(known.count_ones(), 1, "a thread runs on one node");
        if let Err(error) = nodes.spread(&mapping, HALF, HALF) {
            let errno = error.raw_os_error();
            assert!(matches!(errno, Some(libc::ENOSYS | libc::EPERM)), "{error}");
            return;
        }
        mapping.populate(0, 2 * HALF).unwrap();
        assert_eq!(policy(mapping.range_ptr(0, 1)), (0, 0), "by whoever touches it");
        assert_eq!(policy(mapping.range_ptr(HALF, 1)), (libc::MPOL_INTERLEAVE, known));
    }
}
