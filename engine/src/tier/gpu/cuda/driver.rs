//! The CUDA driver as a table of its functions, found at run time: absent, too old or broken, it is
//! an error and never a panic.
//!
//! *Why not the bindings that cudarc declares.* They return a Rust enum, which a code that this
//! version does not know would make invalid, and panic where the library lacks a function. Its
//! loader is used, its declarations are not.

#![allow(unsafe_code, reason = "functions of a library that is loaded at run time")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::error::ErrorKind;
use crate::tier::gpu::GpuFault;

pub(super) type Handle = *mut c_void;
/// Return code of the driver's functions; 0 is success.
pub(super) type Code = c_int;

/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub(super) const OUT_OF_MEMORY: Code = 2;
/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: Code = 100;
/// `CUDA_ERROR_NOT_READY`.
pub(super) const NOT_READY: Code = 600;
/// `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`.
const DRIVER_MISMATCH: Code = 803;
/// `CUDA_ERROR_SYSTEM_NOT_READY`.
const SYSTEM_NOT_READY: Code = 802;
/// `CUDA_ERROR_ECC_UNCORRECTABLE`.
const ECC_UNCORRECTABLE: Code = 214;
/// Oldest interface for which the kernels are made: 11.0 (driver 450).
const OLDEST_VERSION: c_int = 11_000;

/// Declares the table and how it is filled.
macro_rules! functions {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*);)+) => {
        /// The functions that are used, under the names of the driver's interface.
        pub(super) struct Driver {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> Code,)+
        }

        impl Driver {
            /// Looks every function up.
            fn of_library() -> Result<Driver, String> {
                // SAFETY: opens the system's libcuda; its initialisers are the driver's own. It
                // has been found, so this does not panic.
                let library = unsafe { cudarc::driver::sys::culib() };
                Ok(Driver {
                    $($field: {
                        // SAFETY: the signature is the one that the driver's interface gives for
                        // this name, and the library stays loaded for as long as the process.
                        let found = unsafe { library.get($symbol.as_bytes()) };
                        *found.map_err(|_| lacks($symbol))?
                    },)+
                })
            }
        }
    };
}

fn lacks(symbol: &str) -> String {
    format!("the driver's library has no {symbol}: install a driver of version 450 or newer")
}

functions! {
    init = "cuInit": fn(c_uint);
    driver_version = "cuDriverGetVersion": fn(*mut c_int);
    error_name = "cuGetErrorName": fn(Code, *mut *const c_char);
    device_count = "cuDeviceGetCount": fn(*mut c_int);
    device_get = "cuDeviceGet": fn(*mut c_int, c_int);
    device_name = "cuDeviceGetName": fn(*mut c_char, c_int, c_int);
    device_address = "cuDeviceGetPCIBusId": fn(*mut c_char, c_int, c_int);
    context_retain = "cuDevicePrimaryCtxRetain": fn(*mut Handle, c_int);
    context_release = "cuDevicePrimaryCtxRelease_v2": fn(c_int);
    context_set = "cuCtxSetCurrent": fn(Handle);
    memory_info = "cuMemGetInfo_v2": fn(*mut usize, *mut usize);
    memory_alloc = "cuMemAlloc_v2": fn(*mut u64, usize);
    memory_free = "cuMemFree_v2": fn(u64);
    host_alloc = "cuMemHostAlloc": fn(*mut *mut c_void, usize, c_uint);
    host_free = "cuMemFreeHost": fn(*mut c_void);
    host_register = "cuMemHostRegister_v2": fn(*mut c_void, usize, c_uint);
    host_unregister = "cuMemHostUnregister": fn(*mut c_void);
    host_device_pointer = "cuMemHostGetDevicePointer_v2": fn(*mut u64, *mut c_void, c_uint);
    copy_in = "cuMemcpyHtoDAsync_v2": fn(u64, *const c_void, usize, Handle);
    copy_out = "cuMemcpyDtoHAsync_v2": fn(*mut c_void, u64, usize, Handle);
    module_load = "cuModuleLoadData": fn(*mut Handle, *const c_void);
    module_unload = "cuModuleUnload": fn(Handle);
    module_function = "cuModuleGetFunction": fn(*mut Handle, Handle, *const c_char);
    launch = "cuLaunchKernel": fn(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void,
        *mut *mut c_void
    );
    launch_host = "cuLaunchHostFunc": fn(
        Handle, unsafe extern "C" fn(*mut c_void), *mut c_void
    );
    stream_create = "cuStreamCreate": fn(*mut Handle, c_uint);
    stream_destroy = "cuStreamDestroy_v2": fn(Handle);
    stream_wait = "cuStreamSynchronize": fn(Handle);
    stream_wait_event = "cuStreamWaitEvent": fn(Handle, Handle, c_uint);
    event_create = "cuEventCreate": fn(*mut Handle, c_uint);
    event_destroy = "cuEventDestroy_v2": fn(Handle);
    event_record = "cuEventRecord": fn(Handle, Handle);
    event_query = "cuEventQuery": fn(Handle);
    event_elapsed = "cuEventElapsedTime": fn(*mut f32, Handle, Handle);
}

/// Whether the driver's library can be loaded on this machine.
pub(super) fn is_present() -> bool {
    // SAFETY: looks whether the system's libcuda can be opened.
    unsafe { cudarc::driver::sys::is_culib_present() }
}

impl Driver {
    /// Loads the driver and starts it.
    ///
    /// # Errors
    /// Why it can't be used, and what would help.
    pub(super) fn open() -> Result<Driver, String> {
        if !is_present() {
            return Err(
                "no NVIDIA driver was found, as libcuda.so.1 cannot be loaded: install the \
                        driver (in a container, its libraries), so that nvidia-smi works"
                    .to_owned(),
            );
        }
        let driver = Driver::of_library()?;
        // SAFETY: the first call, as the interface asks.
        match unsafe { (driver.init)(0) } {
            0 => {}
            NO_DEVICE => {
                return Err(
                    "the NVIDIA driver finds no GPU: see whether nvidia-smi shows one, and \
                            whether CUDA_VISIBLE_DEVICES hides it"
                        .to_owned(),
                );
            }
            code @ (DRIVER_MISMATCH | SYSTEM_NOT_READY) => {
                let name = driver.name(code);
                return Err(format!(
                    "the NVIDIA driver's library and kernel module do not go together ({name}): \
                     restart the machine, or install both in one version"
                ));
            }
            code => {
                let name = driver.name(code);
                return Err(format!(
                    "the NVIDIA driver could not be started ({name}): see whether nvidia-smi works"
                ));
            }
        }
        let version = driver.version()?;
        if version < OLDEST_VERSION {
            let has = dotted(version);
            return Err(format!(
                "the NVIDIA driver offers CUDA {has} only: install a driver of version 450 or newer"
            ));
        }
        Ok(driver)
    }

    /// The version of its interface: 12,040 is 12.4.
    fn version(&self) -> Result<c_int, String> {
        let mut version = 0;
        // SAFETY: writes one int.
        match unsafe { (self.driver_version)(&raw mut version) } {
            0 => Ok(version),
            code => {
                Err(format!("the NVIDIA driver does not say its version ({})", self.name(code)))
            }
        }
    }

    /// The same, for reports.
    pub(super) fn version_text(&self) -> Option<String> {
        self.version().ok().map(dotted)
    }

    pub(super) fn name(&self, code: Code) -> String {
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: writes a pointer to a constant, or leaves it, when it does not know the code.
        let found = unsafe { (self.error_name)(code, &raw mut text) };
        if found != 0 || text.is_null() {
            return format!("error {code}");
        }
        // SAFETY: the driver's own constant, which ends in a zero.
        let name = unsafe { CStr::from_ptr(text) };
        format!("{}, error {code}", name.to_string_lossy())
    }

    /// A call's failure on a device.
    pub(super) fn fault(&self, code: Code, device: &str) -> GpuFault {
        GpuFault { kind: kind_of(code), device: device.to_owned(), what: self.name(code) }
    }

    /// Nothing, or a call's failure on a device.
    pub(super) fn check(&self, code: Code, device: &str) -> Result<(), GpuFault> {
        if code == 0 { Ok(()) } else { Err(self.fault(code, device)) }
    }
}

/// 12,040 is 12.4.
fn dotted(version: c_int) -> String {
    format!("{}.{}", version / 1_000, version % 1_000 / 10)
}

/// Kind of an error. From illegal addresses (700) to failed launches (719), and for what is unknown
/// (999), the driver gives the device up for this process.
fn kind_of(code: Code) -> ErrorKind {
    match code {
        OUT_OF_MEMORY | 701 => ErrorKind::Resources,
        ECC_UNCORRECTABLE => ErrorKind::Media,
        702 => ErrorKind::Timeout,
        3 | 4 | 46 | 100 | 101 | 700..=720 | 999 => ErrorKind::Gone,
        801 => ErrorKind::Unsupported,
        _ => ErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_kind_and_versions_are_told_as_people_know_them() {
        for code in -10..2_000 {
            assert!(!kind_of(code).name().is_empty());
        }
        assert_eq!((kind_of(OUT_OF_MEMORY), kind_of(719)), (ErrorKind::Resources, ErrorKind::Gone));
        assert_eq!((dotted(12_040), dotted(11_080)), ("12.4".to_owned(), "11.8".to_owned()));
    }
}
