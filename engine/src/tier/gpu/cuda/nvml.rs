//! Use of a GPU's memory according to NVIDIA's management library: how much is in use, and by whom.
//! Loaded at run time; where it is not there, nothing is said.

#![allow(unsafe_code, reason = "functions of a library that is loaded at run time")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use libloading::Library;

use crate::tier::gpu::DriverUse;
use crate::units::gib;

/// Names under which the library is looked for: a driver installs the second, the first is of
/// development packages.
const NAMES: [&str; 2] = ["libnvidia-ml.so", "libnvidia-ml.so.1"];
const PROCESSES_MAX: usize = 256;
/// `NVML_VALUE_NOT_AVAILABLE`.
const UNKNOWN: u64 = u64::MAX;

/// `nvmlMemory_t`.
#[repr(C)]
#[derive(Default)]
struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlProcessInfo_v2_t`, which the functions `_v2` and `_v3` fill.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Process {
    id: c_uint,
    used_bytes: u64,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

type Handle = *mut c_void;

/// The library, started; stopped on drop.
pub(super) struct Nvml {
    library: Library,
    memory_info: unsafe extern "C" fn(Handle, *mut Memory) -> c_int,
    by_address: unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int,
    processes: Option<unsafe extern "C" fn(Handle, *mut c_uint, *mut Process) -> c_int>,
}

/// A process that holds memory of a GPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Holder {
    pub(super) process: u32,
    /// None where the driver does not tell, as in a container.
    pub(super) bytes: Option<u64>,
}

/// Looks a function up.
fn symbol<F: Copy>(library: &Library, name: &str) -> Option<F> {
    // SAFETY: the caller names the signature that NVML's interface gives for this name, and keeps
    // the library for as long as the function.
    unsafe { library.get::<F>(name.as_bytes()) }.ok().map(|function| *function)
}

impl Nvml {
    /// Loads and starts it; none where it is not there, or not of this driver.
    pub(super) fn load() -> Option<Nvml> {
        // SAFETY: opens the system's NVML; its initialisers are its own.
        let library = NAMES.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
        let start: unsafe extern "C" fn() -> c_int = symbol(&library, "nvmlInit_v2")?;
        let processes = ["_v3", "_v2"].iter().find_map(|version| {
            symbol(&library, &format!("nvmlDeviceGetComputeRunningProcesses{version}"))
        });
        let nvml = Nvml {
            memory_info: symbol(&library, "nvmlDeviceGetMemoryInfo")?,
            by_address: symbol(&library, "nvmlDeviceGetHandleByPciBusId_v2")?,
            processes,
            library,
        };
        // SAFETY: `drop` stops it, also where it did not start, which it then says.
        (unsafe { start() } == 0).then_some(nvml)
    }

    fn device(&self, address: &CStr) -> Option<Handle> {
        let mut device: Handle = std::ptr::null_mut();
        // SAFETY: reads a text that ends in a zero, and writes a handle, which is nobody's to give
        // back.
        let code = unsafe { (self.by_address)(address.as_ptr(), &raw mut device) };
        (code == 0).then_some(device)
    }

    pub(super) fn in_use(&self, address: &CStr) -> Option<DriverUse> {
        let device = self.device(address)?;
        let mut memory = Memory::default();
        // SAFETY: writes three sizes.
        let code = unsafe { (self.memory_info)(device, &raw mut memory) };
        if code != 0 {
            return None;
        }
        let own = self.holders(address).into_iter().find(|one| one.process == std::process::id());
        Some(DriverUse { used_bytes: memory.used, own_bytes: own.and_then(|own| own.bytes) })
    }

    /// Processes that compute on the GPU at this address, the largest first.
    pub(super) fn holders(&self, address: &CStr) -> Vec<Holder> {
        let (Some(processes), Some(device)) = (self.processes, self.device(address)) else {
            return Vec::new();
        };
        let mut found = [Process::default(); PROCESSES_MAX];
        let mut count = PROCESSES_MAX as c_uint;
        // SAFETY: writes at most `count` processes, for which there is room, and how many there
        // are.
        let code = unsafe { processes(device, &raw mut count, found.as_mut_ptr()) };
        if code != 0 {
            return Vec::new();
        }
        let mut holders: Vec<Holder> = found[..(count as usize).min(PROCESSES_MAX)]
            .iter()
            .map(|one| Holder {
                process: one.id,
                bytes: (one.used_bytes != UNKNOWN).then_some(one.used_bytes),
            })
            .collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
        holders
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        let stop: Option<unsafe extern "C" fn() -> c_int> = symbol(&self.library, "nvmlShutdown");
        if let Some(stop) = stop {
            // SAFETY: started by `load`, and nothing of it is used any more.
            let _code = unsafe { stop() };
        }
    }
}

/// Who holds a GPU's memory, in words: the largest few, with the names that the system has for
/// them. Empty where nobody is known.
pub(super) fn told(holders: &[Holder]) -> String {
    const TOLD_MAX: usize = 3;
    let name = |process: u32| {
        let text = std::fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
        Some(text.trim().to_owned()).filter(|name| !name.is_empty())
    };
    let one = |holder: &Holder| {
        let name = name(holder.process).map_or(String::new(), |name| format!(" ({name})"));
        let held = holder
            .bytes
            .map_or("an unknown part".to_owned(), |bytes| format!("{:.1} GiB", gib(bytes)));
        format!("process {}{name} holds {held}", holder.process)
    };
    let mut words: Vec<String> = holders.iter().take(TOLD_MAX).map(one).collect();
    if holders.len() > TOLD_MAX {
        words.push(format!("{} more hold the rest", holders.len() - TOLD_MAX));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::GIB;

    #[test]
    fn holders_are_told_by_number_and_size_and_not_all_of_them() {
        assert_eq!(told(&[]), "");
        let holder = |process, bytes| Holder { process, bytes };
        // No process has a number so large (PID_MAX_LIMIT is 2^22).
        let one = told(&[holder(1 << 30, Some(3 * GIB))]);
        assert_eq!(one, "process 1073741824 holds 3.0 GiB");
        let many: Vec<Holder> = (0..5).map(|more| holder((1 << 30) + more, None)).collect();
        let words = told(&many);
        assert!(words.ends_with("2 more hold the rest"), "{words}");
        assert!(words.contains("an unknown part"), "{words}");
        assert!(told(&[holder(std::process::id(), Some(GIB))]).contains('('));
    }
}
