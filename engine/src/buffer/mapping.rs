//! An anonymous memory mapping, in huge pages where they can be had.

#![allow(unsafe_code, reason = "mmap, and slices over what it returned")]

use std::ptr::NonNull;

use super::reserved::RESERVED;
use crate::error::SetupError;
use crate::units::MIB;

/// Size of an x86-64 / aarch64 huge page.
const HUGE_PAGE_BYTES: usize = 2 * MIB as usize;

const SMALL_PAGE_BYTES: usize = 4096;

/// Told where the kernel gave no huge pages for I/O buffers.
pub const SMALL_PAGES: &str = "I/O buffers lie in pages of 4 KiB, since the kernel had no huge \
                               ones to give; where few I/Os are in flight that can halve their \
                               rate: free memory, or reserve huge pages \
                               (`sysctl vm.nr_hugepages=64`)";

/// Kind of pages that back a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageKind {
    /// Reserved huge pages (`vm.nr_hugepages`).
    Huge,
    /// Ordinary pages, which the kernel is asked to merge where there are many (transparent huge
    /// pages).
    Transparent,
}

/// A private zeroed mapping aligned to 2 MiB; unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length_bytes: usize,
    map_start: NonNull<u8>,
    map_bytes: usize,
    page_kind: PageKind,
    /// Nothing may be touched before it is populated.
    is_closed: bool,
}

impl Mapping {
    /// Maps `bytes`, rounded up to whole huge pages: of 4 KiB pages, the drive is given 32 for an
    /// I/O of 128 KiB, at about half of its rate where few I/Os are in flight. `reserved` tries
    /// huge pages set aside by the administrator before transparent ones.
    pub fn new(bytes: usize, reserved: bool) -> Result<Mapping, SetupError> {
        let length_bytes = bytes.max(1).next_multiple_of(HUGE_PAGE_BYTES);
        if reserved && let Ok(start) = map(length_bytes, OPEN, libc::MAP_HUGETLB) {
            RESERVED.take(length_bytes);
            return Ok(Mapping {
                start,
                length_bytes,
                map_start: start,
                map_bytes: length_bytes,
                page_kind: PageKind::Huge,
                is_closed: false,
            });
        }
        Mapping::ordinary(length_bytes, OPEN)
    }

    /// Address space for `bytes` (rounded up to 2 MiB) without any claim to memory: no byte of it
    /// may be touched before [`Mapping::populate`] has given its range memory.
    pub fn closed(bytes: usize) -> Result<Mapping, SetupError> {
        let length_bytes = bytes.max(1).next_multiple_of(HUGE_PAGE_BYTES);
        Mapping::ordinary(length_bytes, libc::PROT_NONE)
    }

    /// Maps `bytes` in pages of 4 KiB, as programs have their memory that do not ask for others,
    /// and gives it its memory: every other page first, so that neighbours do not lie side by side
    /// in memory either, as they rarely do on a machine that has run for a while. Where they did,
    /// the kernel would join them, and the drive had its speed of huge pages.
    pub fn small(bytes: usize) -> Result<Mapping, SetupError> {
        let mapping = Mapping::ordinary(bytes.max(1).next_multiple_of(HUGE_PAGE_BYTES), OPEN)?;
        // Failing where the kernel has no huge pages at all.
        // SAFETY: the range is the mapping, of which no byte is changed.
        let _advice = unsafe {
            libc::madvise(mapping.as_ptr().cast(), mapping.length_bytes, libc::MADV_NOHUGEPAGE)
        };
        let every_other = |first| (first..mapping.length_bytes).step_by(2 * SMALL_PAGE_BYTES);
        for offset in every_other(0).chain(every_other(SMALL_PAGE_BYTES)) {
            mapping.populate(offset, SMALL_PAGE_BYTES)?;
        }
        Ok(mapping)
    }

    fn ordinary(length_bytes: usize, protection: i32) -> Result<Mapping, SetupError> {
        // Over-map by one huge page, so that an aligned start exists inside.
        let map_bytes = length_bytes + HUGE_PAGE_BYTES;
        let map_start = map(map_bytes, protection, 0)
            .map_err(|errno| SetupError::BufferMemory { bytes: length_bytes as u64, errno })?;
        let offset = map_start.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: `offset` < HUGE_PAGE_BYTES, by which the mapping is longer than `length_bytes`.
        let start = unsafe { map_start.add(offset) };
        // Advice: failing changes speed only, and khugepaged may be switched off.
        // SAFETY: the range is inside the mapping just made.
        let _advice =
            unsafe { libc::madvise(start.as_ptr().cast(), length_bytes, libc::MADV_HUGEPAGE) };
        let page_kind = PageKind::Transparent;
        let is_closed = protection != OPEN;
        Ok(Mapping { start, length_bytes, map_start, map_bytes, page_kind, is_closed })
    }

    /// Gives a range its memory now, zeroed, rather than at its first touch.
    pub fn populate(&self, offset: usize, length: usize) -> Result<(), SetupError> {
        let start = self.range_ptr(offset, length);
        if self.is_closed {
            // SAFETY: the range is inside the mapping, and is only made more accessible.
            let rc = unsafe { libc::mprotect(start.cast(), length, OPEN) };
            if rc != 0 {
                let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
                return Err(SetupError::CpuTierMemory { bytes: length as u64, errno });
            }
        }
        // SAFETY: the range is inside the mapping, and populating changes no byte of it.
        let rc = unsafe { libc::madvise(start.cast(), length, libc::MADV_POPULATE_WRITE) };
        match std::io::Error::last_os_error().raw_os_error() {
            _ if rc == 0 => Ok(()),
            // Before Linux 5.14: left to the first touch.
            Some(libc::EINVAL) => Ok(()),
            errno => {
                Err(SetupError::CpuTierMemory { bytes: length as u64, errno: errno.unwrap_or(0) })
            }
        }
    }

    /// Gives all of it its memory now, in huge pages; false where the kernel had none to give, none
    /// where it does not say (before Linux 6.1).
    #[must_use]
    pub fn make_huge(&self) -> Option<bool> {
        if self.page_kind == PageKind::Huge {
            return Some(true);
        }
        self.populate(0, self.len()).ok()?;
        // SAFETY: the range is the mapping, of which no byte is changed.
        let rc = unsafe {
            libc::madvise(self.start.as_ptr().cast(), self.length_bytes, libc::MADV_COLLAPSE)
        };
        match std::io::Error::last_os_error().raw_os_error() {
            _ if rc == 0 => Some(true),
            Some(libc::EINVAL) => None,
            _ => Some(false),
        }
    }

    /// Address of the first byte; valid until the mapping is dropped.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Length of the memory that may be used, bytes.
    pub fn len(&self) -> usize {
        self.length_bytes
    }

    /// Whether it is empty: never, a mapping has at least one page.
    pub fn is_empty(&self) -> bool {
        self.length_bytes == 0
    }

    /// Kind of pages that the kernel gave for the mapping.
    pub fn page_kind(&self) -> PageKind {
        self.page_kind
    }

    /// Its bytes. For open mappings that nobody writes to through [`Mapping::as_ptr`].
    ///
    /// # Panics
    /// For a closed mapping: a bug of the caller.
    pub fn bytes(&self) -> &[u8] {
        assert!(!self.is_closed, "a closed mapping has no bytes of its own");
        // SAFETY: mapped, zeroed by the kernel, alive as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length_bytes) }
    }

    /// A pointer to `range`, checked against the bounds.
    ///
    /// # Panics
    /// When the range leaves the mapping: a bug of the caller.
    pub fn range_ptr(&self, offset: usize, length: usize) -> *mut u8 {
        assert!(offset <= self.length_bytes && length <= self.length_bytes - offset);
        // SAFETY: just checked to lie inside the mapping.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

// SAFETY: plain memory at a fixed address; who may touch which part is the users' business, and
// they say so where they make references into it.
unsafe impl Send for Mapping {}
// SAFETY: as above; nothing in a shared Mapping changes.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that mmap returned, unmapped once; users hold the Mapping.
        let rc = unsafe { libc::munmap(self.map_start.as_ptr().cast(), self.map_bytes) };
        assert_eq!(rc, 0, "munmap of our own mapping can't fail");
        if self.page_kind == PageKind::Huge {
            RESERVED.give_back(self.map_bytes);
        }
    }
}

/// Protection of memory that may be used at once.
const OPEN: i32 = libc::PROT_READ | libc::PROT_WRITE;

fn map(bytes: usize, protection: i32, extra_flags: i32) -> Result<NonNull<u8>, i32> {
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing of ours.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | extra_flags,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0));
    }
    NonNull::new(address.cast()).ok_or(libc::ENOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_and_rounded_up() {
        let mapping = Mapping::new(5 * 1024 * 1024, false).unwrap();
        assert_eq!(mapping.as_ptr().align_offset(HUGE_PAGE_BYTES), 0);
        assert_eq!(mapping.len(), 3 * HUGE_PAGE_BYTES);
    }

    #[test]
    fn a_closed_mapping_takes_no_memory_before_it_is_populated() {
        let mapping = Mapping::closed(64 * 1024 * 1024 * 1024).unwrap();
        let range = 4 * HUGE_PAGE_BYTES;
        mapping.populate(range, HUGE_PAGE_BYTES).unwrap();
        let start = mapping.range_ptr(range, HUGE_PAGE_BYTES);
        // SAFETY: populated just now, and nobody else uses it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start, HUGE_PAGE_BYTES) };
        assert!(bytes.iter().all(|&byte| byte == 0));
        bytes.fill(7);
        assert_eq!(bytes[HUGE_PAGE_BYTES - 1], 7);
    }

    /// A pool below 1 MiB was in small pages on purpose.
    #[test]
    fn a_small_mapping_gets_a_huge_page_where_there_are_any() {
        let mapping = Mapping::new(4096, false).unwrap();
        if mapping.make_huge() == Some(true) {
            let huge = huge_kib_of(mapping.as_ptr() as u64);
            assert!(huge.is_none_or(|kib| kib >= 2048), "{huge:?} KiB in huge pages");
        }
        assert!(mapping.bytes().iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_mapping_in_small_pages_has_no_huge_one() {
        let mapping = Mapping::small(4 * HUGE_PAGE_BYTES).unwrap();
        assert_eq!(huge_kib_of(mapping.as_ptr() as u64).unwrap_or(0), 0);
        assert!(mapping.bytes().iter().all(|&byte| byte == 0));
    }

    /// KiB in transparent huge pages of the mapping with that address, as the kernel tells it.
    fn huge_kib_of(address: u64) -> Option<u64> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mut is_its = false;
        for line in maps.lines() {
            let range = line.split(' ').next()?.split_once('-');
            let number = |text| u64::from_str_radix(text, 16).ok();
            if let Some((from, to)) = range.and_then(|(from, to)| number(from).zip(number(to))) {
                is_its = (from..to).contains(&address);
            } else if let Some(kib) = line.strip_prefix("AnonHugePages:").filter(|_| is_its) {
                return kib.trim().trim_end_matches(" kB").parse().ok();
            }
        }
        None
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        let error = Mapping::new(1 << 60, true).unwrap_err();
        let SetupError::BufferMemory { bytes, errno } = error else { panic!("{error}") };
        assert_eq!((bytes, errno), (1 << 60, libc::ENOMEM));
    }
}
