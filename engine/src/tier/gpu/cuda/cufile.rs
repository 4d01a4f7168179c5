//! cuFile, the library of GPUDirect Storage, as a table of its functions, found at run time:
//! absent, too old or broken, it is an error and never a panic.
//!
//! *Why not the functions that cudarc declares.* They return Rust enums, which a code that this
//! version does not know would make invalid, panic where the library lacks a function, and are not
//! looked for in `libcufile.so.0`, the name under which the library is installed. Its declarations
//! say how the structures lie in memory; the asserts below hold ours to them.

#![allow(unsafe_code, reason = "functions of a library that is loaded at run time")]

use std::ffi::{c_int, c_uint, c_void};
use std::mem::offset_of;
use std::sync::OnceLock;

use cudarc::cufile::sys;
use libloading::Library;

/// Names under which the library is looked for: as a toolkit installs it, and as it calls itself.
const NAMES: [&str; 3] = ["libcufile.so", "libcufile.so.0", "libcufile.so.1"];

pub(super) type Handle = *mut c_void;

/// Return value of cuFile's functions: its own code, 0 for success, and the CUDA driver's.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Status {
    pub(super) code: c_int,
    pub(super) cuda: c_int,
}

/// `CU_FILE_CUDA_DRIVER_ERROR`: the second code says which.
const CUDA_DRIVER_ERROR: c_int = 5011;

/// Parameters with which a file is registered. The only handles used are descriptors.
#[repr(C)]
pub(super) struct Description {
    kind: c_int,
    descriptor: usize,
    operations: *const c_void,
}

impl Description {
    pub(super) fn of(descriptor: c_int) -> Description {
        /// `CU_FILE_HANDLE_TYPE_OPAQUE_FD`.
        const DESCRIPTOR: c_int = 1;
        Description {
            kind: DESCRIPTOR,
            // A union of an int and a pointer: the int is its first bytes.
            descriptor: usize::from_le_bytes({
                let mut bytes = [0; size_of::<usize>()];
                bytes[..4].copy_from_slice(&descriptor.to_le_bytes());
                bytes
            }),
            operations: std::ptr::null(),
        }
    }
}

#[cfg(target_endian = "big")]
compile_error!("a descriptor is the first bytes of a union, which are its low ones here");

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Transfer {
    /// `CUFILE_BATCH`, the only mode.
    pub(super) mode: c_int,
    pub(super) memory: u64,
    pub(super) file_offset: i64,
    pub(super) memory_offset: i64,
    pub(super) bytes: usize,
    pub(super) file: Handle,
    /// 0 reads, 1 writes.
    pub(super) operation: c_int,
    pub(super) cookie: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Event {
    pub(super) cookie: usize,
    pub(super) status: c_int,
    /// Bytes moved, or a negative code.
    pub(super) result: isize,
}

/// Properties of the library and the kernel module.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Properties {
    pub(super) module_major: c_uint,
    pub(super) module_minor: c_uint,
    pub(super) poll_bytes: usize,
    pub(super) direct_bytes_max: usize,
    /// A bit for each kind of storage that is reached directly.
    pub(super) storage_bits: c_uint,
    pub(super) control_bits: c_uint,
    pub(super) feature_bits: c_uint,
    pub(super) cache_kib_max: c_uint,
    pub(super) cache_kib_each: c_uint,
    pub(super) pinned_kib_max: c_uint,
    pub(super) batch_entries_max: c_uint,
    pub(super) batch_timeout_ms: c_uint,
    /// Room for what later versions add.
    pub(super) later: [u64; 8],
}

const _: () = assert!(size_of::<Status>() == size_of::<sys::CUfileError_t>());
const _: () = assert!(size_of::<Description>() == size_of::<sys::CUfileDescr_t>());
const _: () = assert!(
    offset_of!(Description, descriptor) == offset_of!(sys::CUfileDescr_t, handle)
        && offset_of!(Description, operations) == offset_of!(sys::CUfileDescr_t, fs_ops)
);
const _: () = assert!(size_of::<Transfer>() == size_of::<sys::CUfileIOParams_t>());
const _: () = assert!(
    offset_of!(Transfer, memory) == offset_of!(sys::CUfileIOParams_t, u)
        && offset_of!(Transfer, file) == offset_of!(sys::CUfileIOParams_t, fh)
        && offset_of!(Transfer, operation) == offset_of!(sys::CUfileIOParams_t, opcode)
        && offset_of!(Transfer, cookie) == offset_of!(sys::CUfileIOParams_t, cookie)
);
const _: () = assert!(size_of::<Event>() == size_of::<sys::CUfileIOEvents_t>());
const _: () = assert!(
    offset_of!(Event, status) == offset_of!(sys::CUfileIOEvents_t, status)
        && offset_of!(Event, result) == offset_of!(sys::CUfileIOEvents_t, ret)
);
const _: () = assert!(size_of::<Properties>() > size_of::<sys::CUfileDrvProps_t>());
const _: () = assert!(
    offset_of!(Properties, feature_bits) == offset_of!(sys::CUfileDrvProps_t, fflags)
        && offset_of!(Properties, pinned_kib_max)
            == offset_of!(sys::CUfileDrvProps_t, max_device_pinned_mem_size)
);

/// Kinds of storage of [`Properties::storage_bits`] that are drives or file systems on them.
pub(super) const NVME_P2P: c_uint = 1 << 11;

/// Looks a function up.
fn symbol<F: Copy>(library: &Library, name: &str) -> Result<F, String> {
    // SAFETY: the caller names the signature that cuFile's interface gives for this name, and the
    // library stays loaded for as long as the process.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    found
        .map(|function| *function)
        .map_err(|_| format!("cuFile has no {name}: install GPUDirect Storage of CUDA 12 or newer"))
}

macro_rules! functions {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*) $(-> $answer:ty)?;)+) => {
        /// The functions that are used, under the names of cuFile's interface.
        pub(super) struct Cufile {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)+
            /// Sets a switch; newer versions have it.
            set_switch: Option<unsafe extern "C" fn(c_int, bool) -> Status>,
            version: Option<unsafe extern "C" fn(*mut c_int) -> Status>,
        }

        impl Cufile {
            fn of(library: &Library) -> Result<Cufile, String> {
                Ok(Cufile {
                    $($field: symbol(library, $symbol)?,)+
                    set_switch: symbol(library, "cuFileSetParameterBool").ok(),
                    version: symbol(library, "cuFileGetVersion").ok(),
                })
            }
        }
    };
}

functions! {
    driver_open = "cuFileDriverOpen": fn() -> Status;
    driver_close = "cuFileDriverClose": fn() -> Status;
    properties = "cuFileDriverGetProperties": fn(*mut Properties) -> Status;
    file_register = "cuFileHandleRegister": fn(*mut Handle, *mut Description) -> Status;
    file_deregister = "cuFileHandleDeregister": fn(Handle);
    memory_register = "cuFileBufRegister": fn(u64, usize, c_int) -> Status;
    memory_deregister = "cuFileBufDeregister": fn(u64) -> Status;
    batch_open = "cuFileBatchIOSetUp": fn(*mut Handle, c_uint) -> Status;
    batch_submit = "cuFileBatchIOSubmit": fn(Handle, c_uint, *mut Transfer, c_uint) -> Status;
    batch_status = "cuFileBatchIOGetStatus": fn(
        Handle, c_uint, *mut c_uint, *mut Event, *mut libc::timespec
    ) -> Status;
    batch_cancel = "cuFileBatchIOCancel": fn(Handle) -> Status;
    batch_close = "cuFileBatchIODestroy": fn(Handle);
}

fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    let load = || {
        // SAFETY: opens the system's libcufile; its initialisers are its own.
        NAMES.iter().find_map(|name| unsafe { Library::new(*name) }.ok())
    };
    LIBRARY.get_or_init(load).as_ref()
}

/// Whether the library can be loaded on this machine.
pub(super) fn is_present() -> bool {
    library().is_some()
}

impl Cufile {
    /// Loads the library.
    ///
    /// # Errors
    /// Why it can't be used, and what would help.
    pub(super) fn load() -> Result<Cufile, String> {
        let Some(library) = library() else {
            return Err(
                "GPUDirect Storage is not installed, as libcufile.so.0 cannot be loaded".to_owned()
            );
        };
        Cufile::of(library)
    }

    /// Has the library refuse to go by way of host memory, where it can be told to, which is before
    /// it is opened. Whether it was.
    pub(super) fn forbid_compatibility(&self) -> bool {
        /// `CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE`.
        const ALLOW_COMPATIBILITY: c_int = 1;
        // SAFETY: takes two values.
        self.set_switch.is_some_and(|set| unsafe { set(ALLOW_COMPATIBILITY, false) }.code == 0)
    }

    /// Version of the library: 1,090 is 1.9.0.
    pub(super) fn version_text(&self) -> Option<String> {
        let mut version = 0;
        // SAFETY: writes one int.
        let status = self.version.map(|version_of| unsafe { version_of(&raw mut version) })?;
        let (major, minor, patch) = (version / 1_000, version % 1_000 / 10, version % 10);
        (status.code == 0).then(|| format!("{major}.{minor}.{patch}"))
    }
}

/// A failure in words, with its numbers.
pub(super) fn describe(status: Status) -> String {
    match status.code {
        CUDA_DRIVER_ERROR => format!("CUDA error {}, reported by cuFile", status.cuda),
        5001 => format!("cuFile error {}: the kernel module nvidia-fs is not loaded", status.code),
        5007..=5009 => format!("cuFile error {}: not supported here", status.code),
        5004 | 5005 | 5010 | 5033 | 5048 => {
            format!("cuFile error {}: of the nvidia-fs module", status.code)
        }
        5018..=5020 => format!("cuFile error {}: it can't do direct I/O on this file", status.code),
        5025 => format!("cuFile error {}: permission denied", status.code),
        5036 => format!("cuFile error {}: the GPU has no more memory to pin", status.code),
        5049 => format!("cuFile error {}: only its compatibility mode would do it", status.code),
        code => format!("cuFile error {code}"),
    }
}

/// A failed transfer's result as a negative errno. cuFile tells an errno of the file system as
/// such, and its own codes from 5,000 on.
pub(super) fn errno_of(result: isize) -> i64 {
    match result.unsigned_abs() {
        0 => 0,
        5025 => -i64::from(libc::EPERM),
        5043 => -i64::from(libc::ENOMEM),
        errno @ 1..=4_095 => -(errno as i64),
        _ => -i64::from(libc::EIO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_words_and_an_errno_that_the_data_path_knows() {
        for code in 4_990..5_060 {
            assert!(!describe(Status { code, cuda: 1 }).is_empty());
            let errno = errno_of(-(code as isize));
            assert!((-4_095..0).contains(&errno), "{code}: {errno}");
        }
        assert_eq!(errno_of(-5), -5);
        assert_eq!(errno_of(isize::MIN), -i64::from(libc::EIO));
        assert!(describe(Status { code: CUDA_DRIVER_ERROR, cuda: 700 }).contains("CUDA error 700"));
    }

    #[test]
    fn a_descriptor_is_where_the_union_has_it() {
        let description = Description::of(0x0102_0304);
        // SAFETY: the first four bytes of a field of eight.
        let first = unsafe { (&raw const description.descriptor).cast::<c_int>().read() };
        assert_eq!((first, description.kind), (0x0102_0304, 1));
        assert!(description.operations.is_null());
    }
}
