//! GPUs, by way of the CUDA driver: their memory, taken once, and their own making and checking of
//! content.
//!
//! The driver is loaded when a GPU tier is asked for, and only then (`driver`). Work goes out on
//! streams of each shard (`queue`). What the GPU computes is `content.cu`, shipped as the text of
//! an intermediate language (`content.ptx`) that the driver compiles for the device it finds.

#![allow(unsafe_code, reason = "calls of the driver")]

mod cufile;
mod driver;
mod gds;
mod nvml;
mod queue;
mod trial;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Arc;

use super::{Bell, DriverUse, GpuDevice, GpuFacts, GpuFault, GpuKind, GpuMemory, GpuQueue};
use crate::clock::Clock;
use crate::error::SetupError;
use crate::tier::pages::{HostPages, PageLocker};
use crate::units::gib;
use driver::{Code, Driver, Handle, OUT_OF_MEMORY};
pub use gds::Gds;
use nvml::Nvml;

/// The kernels; the driver wants a zero at the end.
const KERNELS: &str = concat!(include_str!("content.ptx"), "\0");
/// `CU_MEMHOSTREGISTER_PORTABLE`: page-locked for all devices.
const PORTABLE: u32 = 1;

struct Device {
    driver: Arc<Driver>,
    number: c_int,
    /// As messages call it.
    label: String,
    /// On the bus; none where the driver does not tell.
    address: Option<CString>,
    context: Handle,
    module: Handle,
    fill: Handle,
    check: Handle,
    /// Address of its part of the memory.
    start: u64,
}

// SAFETY: handles of the driver, which may be used from any thread of the process once that thread
// has made the context its own; nothing here changes after it was made.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// Memory of GPUs, taken once. Given back on drop.
pub struct CudaMemory {
    driver: Arc<Driver>,
    devices: Vec<Arc<Device>>,
    device_bytes: u64,
    facts: GpuFacts,
}

impl std::fmt::Debug for CudaMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaMemory").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl CudaMemory {
    /// Takes `device_bytes` on each of these devices, or on the first `count` of them.
    ///
    /// # Errors
    /// Why that can't be had, and what would help: a sentence without its full stop.
    pub fn open(
        indices: Option<&[u32]>,
        count: u32,
        device_bytes: u64,
    ) -> Result<Arc<CudaMemory>, String> {
        let driver = Arc::new(Driver::open()?);
        let mut there: c_int = 0;
        // SAFETY: writes one int.
        let code = unsafe { (driver.device_count)(&raw mut there) };
        if code != 0 {
            return Err(format!(
                "the NVIDIA driver does not say how many GPUs there are ({})",
                driver.name(code)
            ));
        }
        let there = u32::try_from(there).unwrap_or(0);
        let wanted: Vec<u32> = match indices {
            Some(indices) => indices.to_vec(),
            None => (0..count).collect(),
        };
        if let Some(missing) = wanted.iter().find(|index| **index >= there) {
            return Err(format!("there is no GPU {missing}: the driver shows {there} of them"));
        }
        let (mut devices, mut facts) = (Vec::new(), Vec::new());
        for index in wanted {
            let (device, fact) = Device::open(&driver, index, device_bytes)?;
            devices.push(Arc::new(device));
            facts.push(fact);
        }
        let facts = GpuFacts { kind: GpuKind::Cuda, driver: driver.version_text(), devices: facts };
        Ok(Arc::new(CudaMemory { driver, devices, device_bytes, facts }))
    }
}

impl Device {
    fn open(driver: &Arc<Driver>, index: u32, bytes: u64) -> Result<(Device, GpuDevice), String> {
        let mut device = Device {
            driver: Arc::clone(driver),
            number: 0,
            label: format!("GPU {index}"),
            address: None,
            context: std::ptr::null_mut(),
            module: std::ptr::null_mut(),
            fill: std::ptr::null_mut(),
            check: std::ptr::null_mut(),
            start: 0,
        };
        let tried = |doing: &str, code: Code| match code {
            0 => Ok(()),
            code => Err(format!("GPU {index} could not {doing} ({})", driver.name(code))),
        };
        let number = c_int::try_from(index).map_err(|_| format!("there is no GPU {index}"))?;
        // SAFETY: writes the device's number.
        tried("be found", unsafe { (driver.device_get)(&raw mut device.number, number) })?;
        let mut name = [0 as c_char; 256];
        // SAFETY: writes at most 256 bytes, the last of which stays zero.
        tried("be named", unsafe { (driver.device_name)(name.as_mut_ptr(), 255, device.number) })?;
        // SAFETY: ends in a zero, see above.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
        device.label = format!("GPU {index} ({name})");
        device.address = address_of(driver, device.number);
        let context = &raw mut device.context;
        // SAFETY: writes a handle, which `drop` gives back.
        match unsafe { (driver.context_retain)(context, device.number) } {
            // A context takes about half a GiB by itself.
            OUT_OF_MEMORY => {
                return Err(format!(
                    "GPU {index} ({name}) has too little memory free to be opened: end what holds \
                     it ({})",
                    device.who_holds()
                ));
            }
            code => tried("be opened", code)?,
        }
        device.enter().map_err(|fault| fault.to_string())?;
        let (mut free, mut all) = (0usize, 0usize);
        // SAFETY: writes two sizes.
        tried("say what is free", unsafe { (driver.memory_info)(&raw mut free, &raw mut all) })?;
        let (free, all) = (free as u64, all as u64);
        let code = match usize::try_from(bytes) {
            Ok(bytes) => {
                // SAFETY: writes an address, which `drop` gives back.
                unsafe { (driver.memory_alloc)(&raw mut device.start, bytes) }
            }
            Err(_) => OUT_OF_MEMORY,
        };
        if code == OUT_OF_MEMORY {
            return Err(format!(
                "GPU {index} ({name}) has {:.1} of {:.1} GiB free, and {:.1} GiB were to be taken: \
                 ask for less, or end what holds the rest ({})",
                gib(free),
                gib(all),
                gib(bytes),
                device.who_holds()
            ));
        }
        tried("give its memory", code)?;
        let image: *const c_void = KERNELS.as_ptr().cast();
        // SAFETY: a text that ends in a zero; writes a handle, which `drop` gives back.
        tried("compile its kernels", unsafe {
            (driver.module_load)(&raw mut device.module, image)
        })?;
        for (function, name) in
            [(&raw mut device.fill, c"ringfall_fill"), (&raw mut device.check, c"ringfall_check")]
        {
            // SAFETY: a name that the text has; writes a handle, valid as long as the module.
            let code = unsafe { (driver.module_function)(function, device.module, name.as_ptr()) };
            tried("find its kernels", code)?;
        }
        let fact = GpuDevice { index, name, memory_bytes: all, free_bytes: free };
        Ok((device, fact))
    }

    /// Names the processes that hold its memory, or the program that shows them.
    fn who_holds(&self) -> String {
        self.holders().unwrap_or_else(|| "nvidia-smi shows it".to_owned())
    }

    /// Which other processes hold its memory, in words; none where nobody says.
    fn holders(&self) -> Option<String> {
        let mut holders = Nvml::load()?.holders(self.address.as_ref()?);
        // Its own context takes some; it is not to be told to end itself.
        holders.retain(|holder| holder.process != std::process::id());
        Some(nvml::told(&holders)).filter(|words| !words.is_empty())
    }

    /// Makes the device the calling thread's own: what the driver is asked next goes to it.
    fn enter(&self) -> Result<(), GpuFault> {
        // SAFETY: a context of this process.
        let code = unsafe { (self.driver.context_set)(self.context) };
        self.driver.check(code, &self.label)
    }
}

/// Where a device is on the bus, as `domain:bus:device.function`.
fn address_of(driver: &Driver, number: c_int) -> Option<CString> {
    let mut text = [0 as c_char; 32];
    // SAFETY: writes at most 31 bytes, the last of which stays zero.
    let code = unsafe { (driver.device_address)(text.as_mut_ptr(), 31, number) };
    // SAFETY: ends in a zero, see above.
    (code == 0).then(|| unsafe { CStr::from_ptr(text.as_ptr()) }.to_owned())
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.context.is_null() {
            return;
        }
        // The queues, each of which holds its devices, are gone. What can't be given back the
        // driver takes when the process ends.
        let _entered = self.enter();
        // SAFETY: what `open` got, given back once.
        unsafe {
            if !self.module.is_null() {
                let _unloaded = (self.driver.module_unload)(self.module);
            }
            if self.start != 0 {
                let _freed = (self.driver.memory_free)(self.start);
            }
            let _released = (self.driver.context_release)(self.number);
        }
    }
}

impl GpuMemory for CudaMemory {
    fn facts(&self) -> &GpuFacts {
        &self.facts
    }

    fn bytes(&self) -> u64 {
        self.device_bytes * self.devices.len() as u64
    }

    fn open_queue(&self, _clock: Clock, bell: Bell) -> Result<Box<dyn GpuQueue>, SetupError> {
        let queue = queue::CudaQueue::open(&self.driver, &self.devices, self.device_bytes, bell);
        match queue {
            Ok(queue) => Ok(Box::new(queue)),
            Err(fault) => Err(SetupError::Gpu { what: fault.to_string() }),
        }
    }

    fn driver_use(&self) -> Vec<Option<DriverUse>> {
        let Some(nvml) = Nvml::load() else { return Vec::new() };
        let devices = self.devices.iter();
        devices.map(|device| nvml.in_use(device.address.as_ref()?)).collect()
    }
}

impl PageLocker for CudaMemory {
    unsafe fn lock_pages(&self, start: *mut u8, bytes: usize) -> Result<HostPages, GpuFault> {
        let first = self.devices.first().ok_or_else(|| GpuFault {
            kind: crate::error::ErrorKind::Other,
            device: "GPU".to_owned(),
            what: "there is none".to_owned(),
        })?;
        first.enter()?;
        // SAFETY: the caller promises that the range is mapped until the answer is dropped.
        let code = unsafe { (self.driver.host_register)(start.cast(), bytes, PORTABLE) };
        self.driver.check(code, &first.label)?;
        let (device, start) = (Arc::clone(first), start as usize);
        Ok(HostPages::new(move || {
            let _entered = device.enter();
            // SAFETY: registered above, and given back once.
            let _code = unsafe { (device.driver.host_unregister)(start as *mut c_void) };
        }))
    }
}
