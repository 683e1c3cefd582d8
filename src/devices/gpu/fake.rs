//! A driver over host memory, for tests of what stands above it. Streams do nothing until somebody waits for them, so
//! that a copy whose source is touched too early shows; launches are noted, not computed.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::chip::{Arch, Chip, PciAddress};
use super::driver::*;
use crate::devices::DeviceKind;

/// One kernel launch as the driver saw it.
#[derive(Clone, PartialEq, Debug)]
pub struct Launched {
    pub name: String,
    pub grid: [u32; 3],
    pub block: u32,
    /// Eight bytes from where each parameter is.
    pub params: Vec<u64>,
}

#[derive(Default)]
pub struct State {
    pub memory: BTreeMap<u64, Vec<u8>>,
    pub used_bytes: u64,
    pub largest_alloc_bytes: u64,
    pinned: HashMap<usize, Box<[u8]>>,
    streams: HashMap<usize, Stream>,
    events: HashMap<usize, Option<(usize, u64)>>,
    modules: HashMap<usize, Vec<u8>>,
    functions: HashMap<usize, String>,
    contexts: usize,
    next: usize,
    next_address: u64,
    pub launched: Vec<Launched>,
    /// Called after each launch with how many there were.
    pub on_launch: Option<Box<dyn Fn(usize) + Send>>,
    pub n_syncs: usize,
    pub is_lost: bool,
    /// Calls made after the loss, but for `close`.
    pub n_calls_when_lost: usize,
}

#[derive(Default)]
struct Stream {
    queue: Vec<Work>,
    n_queued: u64,
    n_done: u64,
}

/// Work of a stream: host addresses are those of pinned memory.
enum Work {
    Fill { to: u64, byte: u8, n: u64 },
    ToDevice { to: u64, from: usize, n: usize },
    ToHost { to: usize, from: u64, n: usize },
    OnDevice { to: u64, from: u64, n: u64 },
    Launch,
}

/// What is left of handles.
#[derive(PartialEq, Eq, Debug, Default)]
pub struct Live {
    pub allocations: usize,
    pub pinned: usize,
    pub streams: usize,
    pub events: usize,
    pub modules: usize,
    pub contexts: usize,
}

pub struct Fake {
    pub total_bytes: u64,
    state: Mutex<State>,
}

impl Fake {
    pub fn new(total_bytes: u64) -> Arc<Fake> {
        Arc::new(Fake { total_bytes, state: Mutex::new(State { next: 1, next_address: 1 << 20, ..State::default() }) })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn live(&self) -> Live {
        let s = self.state();
        Live {
            allocations: s.memory.len(),
            pinned: s.pinned.len(),
            streams: s.streams.len(),
            events: s.events.len(),
            modules: s.modules.len(),
            contexts: s.contexts,
        }
    }

    /// Work that nobody has waited for.
    pub fn n_pending(&self) -> usize {
        self.state().streams.values().map(|stream| stream.queue.len()).sum()
    }

    fn call<T>(
        &self,
        call: &'static str,
        body: impl FnOnce(&mut State) -> Result<T, DriverErrorKind>,
    ) -> Result<T, DriverError> {
        let mut state = self.state();
        if state.is_lost {
            state.n_calls_when_lost += 1;
            return Err(error(call, DriverErrorKind::DeviceLost));
        }
        body(&mut state).map_err(|kind| error(call, kind))
    }

    fn queue(&self, call: &'static str, stream: StreamHandle, work: Work) -> Result<(), DriverError> {
        self.call(call, |s| {
            let stream = s.streams.get_mut(&stream.0).ok_or(DriverErrorKind::Other)?;
            stream.n_queued += 1;
            stream.queue.push(work);
            Ok(())
        })
    }
}

fn error(call: &'static str, kind: DriverErrorKind) -> DriverError {
    DriverError { call, code: 7, text: format!("{kind:?}"), kind }
}

impl State {
    fn handle(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    fn bytes(&mut self, address: u64, n: u64) -> Result<&mut [u8], DriverErrorKind> {
        let (start, bytes) = self.memory.range_mut(..=address).next_back().ok_or(DriverErrorKind::DeviceLost)?;
        let at = (address - start) as usize;
        bytes.get_mut(at..at + n as usize).ok_or(DriverErrorKind::DeviceLost)
    }

    /// A copy of device memory.
    pub fn read(&mut self, address: u64, n: u64) -> Vec<u8> {
        self.bytes(address, n).unwrap().to_vec()
    }

    /// Does a stream's work up to a count.
    fn advance(&mut self, stream: usize, until: u64) -> Result<(), DriverErrorKind> {
        let Some(found) = self.streams.get_mut(&stream) else { return Ok(()) };
        let n = until.saturating_sub(found.n_done).min(found.queue.len() as u64);
        let copies: Vec<_> = found.queue.drain(..n as usize).collect();
        found.n_done += n;
        for copy in copies {
            match copy {
                Work::Fill { to, byte, n } => self.bytes(to, n)?.fill(byte),
                Work::ToDevice { to, from, n } => {
                    // SAFETY: the caller of `copy_to_device` promised it until now.
                    let source = unsafe { std::slice::from_raw_parts(from as *const u8, n) };
                    self.bytes(to, n as u64)?.copy_from_slice(source);
                }
                Work::ToHost { to, from, n } => {
                    let source = self.bytes(from, n as u64)?;
                    // SAFETY: the caller of `copy_to_host` promised it until now.
                    unsafe { std::slice::from_raw_parts_mut(to as *mut u8, n) }.copy_from_slice(source);
                }
                Work::OnDevice { to, from, n } => {
                    let source = self.bytes(from, n)?.to_vec();
                    self.bytes(to, n)?.copy_from_slice(&source);
                }
                Work::Launch => {}
            }
        }
        Ok(())
    }
}

impl Driver for Fake {
    fn kind(&self) -> DeviceKind {
        DeviceKind::Rocm
    }

    fn version(&self) -> String {
        "fake 1".into()
    }

    fn n_devices(&self) -> Result<u32, DriverError> {
        Ok(2)
    }

    fn info(&self, ordinal: u32) -> Result<GpuInfo, DriverError> {
        Ok(GpuInfo {
            ordinal,
            name: "Fake".into(),
            pci: PciAddress::default(),
            chip: Chip { arch: Arch::Gfx(0x90a), wave_size: 64, n_multiprocessors: 10 },
            total_bytes: self.total_bytes,
            is_integrated: false,
            memory_bytes_per_s: None,
        })
    }

    fn open(&self, ordinal: u32) -> Result<ContextHandle, DriverError> {
        self.call("open", |s| {
            s.contexts += 1;
            Ok(ContextHandle(ordinal as usize))
        })
    }

    fn close(&self, _: ContextHandle, _: u32) {
        self.state().contexts -= 1;
    }

    fn bind(&self, _: ContextHandle) -> Result<(), DriverError> {
        self.call("bind", |_| Ok(()))
    }

    fn memory(&self) -> Result<(u64, u64), DriverError> {
        self.call("memory", |s| Ok((self.total_bytes - s.used_bytes, self.total_bytes)))
    }

    fn alloc(&self, n_bytes: u64) -> Result<DeviceAddress, DriverError> {
        self.call("alloc", |s| {
            if n_bytes > self.total_bytes - s.used_bytes {
                return Err(DriverErrorKind::OutOfMemory);
            }
            let address = s.next_address;
            s.next_address += (n_bytes + 4096).next_multiple_of(4096);
            s.used_bytes += n_bytes;
            s.largest_alloc_bytes = s.largest_alloc_bytes.max(n_bytes);
            s.memory.insert(address, vec![0xee; n_bytes as usize]);
            Ok(DeviceAddress(address))
        })
    }

    fn free(&self, address: DeviceAddress) -> Result<(), DriverError> {
        self.call("free", |s| {
            let bytes = s.memory.remove(&address.0).ok_or(DriverErrorKind::Other)?;
            s.used_bytes -= bytes.len() as u64;
            Ok(())
        })
    }

    fn alloc_pinned(&self, n_bytes: usize) -> Result<*mut u8, DriverError> {
        self.call("alloc_pinned", |s| {
            let mut memory = vec![0xdd; n_bytes].into_boxed_slice();
            let start = memory.as_mut_ptr();
            s.pinned.insert(start as usize, memory);
            Ok(start)
        })
    }

    unsafe fn free_pinned(&self, memory: *mut u8) -> Result<(), DriverError> {
        self.call("free_pinned", |s| s.pinned.remove(&(memory as usize)).map(drop).ok_or(DriverErrorKind::Other))
    }

    fn create_stream(&self) -> Result<StreamHandle, DriverError> {
        self.call("create_stream", |s| {
            let handle = s.handle();
            s.streams.insert(handle, Stream::default());
            Ok(StreamHandle(handle))
        })
    }

    fn destroy_stream(&self, stream: StreamHandle) -> Result<(), DriverError> {
        self.call("destroy_stream", |s| s.streams.remove(&stream.0).map(drop).ok_or(DriverErrorKind::Other))
    }

    fn sync_stream(&self, stream: StreamHandle) -> Result<(), DriverError> {
        self.call("sync_stream", |s| s.advance(stream.0, u64::MAX))
    }

    fn wait_event(&self, _: StreamHandle, event: EventHandle) -> Result<(), DriverError> {
        self.sync_event(event)
    }

    fn create_event(&self, _: bool) -> Result<EventHandle, DriverError> {
        self.call("create_event", |s| {
            let handle = s.handle();
            s.events.insert(handle, None);
            Ok(EventHandle(handle))
        })
    }

    fn destroy_event(&self, event: EventHandle) -> Result<(), DriverError> {
        self.call("destroy_event", |s| s.events.remove(&event.0).map(drop).ok_or(DriverErrorKind::Other))
    }

    fn record_event(&self, event: EventHandle, stream: StreamHandle) -> Result<(), DriverError> {
        self.call("record_event", |s| {
            let n_queued = s.streams.get(&stream.0).ok_or(DriverErrorKind::Other)?.n_queued;
            s.events.insert(event.0, Some((stream.0, n_queued)));
            Ok(())
        })
    }

    fn sync_event(&self, event: EventHandle) -> Result<(), DriverError> {
        self.call("sync_event", |s| {
            s.n_syncs += 1;
            match *s.events.get(&event.0).ok_or(DriverErrorKind::Other)? {
                Some((stream, until)) => s.advance(stream, until),
                None => Ok(()),
            }
        })
    }

    fn query_event(&self, event: EventHandle) -> Result<bool, DriverError> {
        self.call("query_event", |s| {
            let recorded = *s.events.get(&event.0).ok_or(DriverErrorKind::Other)?;
            Ok(recorded.is_none_or(|(stream, until)| s.streams.get(&stream).is_none_or(|s| s.n_done >= until)))
        })
    }

    fn elapsed_ms(&self, _: EventHandle, _: EventHandle) -> Result<f32, DriverError> {
        Err(error("elapsed_ms", DriverErrorKind::Other))
    }

    fn fill(&self, to: DeviceAddress, byte: u8, n_bytes: u64, stream: StreamHandle) -> Result<(), DriverError> {
        self.queue("fill", stream, Work::Fill { to: to.0, byte, n: n_bytes })
    }

    unsafe fn copy_to_device(
        &self,
        to: DeviceAddress,
        from: *const u8,
        n: usize,
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        self.queue("copy_to_device", stream, Work::ToDevice { to: to.0, from: from as usize, n })
    }

    unsafe fn copy_to_host(
        &self,
        to: *mut u8,
        from: DeviceAddress,
        n: usize,
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        self.queue("copy_to_host", stream, Work::ToHost { to: to as usize, from: from.0, n })
    }

    fn copy_on_device(
        &self,
        to: DeviceAddress,
        from: DeviceAddress,
        n: u64,
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        self.queue("copy_on_device", stream, Work::OnDevice { to: to.0, from: from.0, n })
    }

    /// The second device can read the first, not the other way round.
    fn enable_peer(&self, ordinal: u32, _: (ContextHandle, u32)) -> Result<bool, DriverError> {
        self.call("enable_peer", |_| Ok(ordinal == 1))
    }

    fn copy_peer(
        &self,
        to: (DeviceAddress, ContextHandle, u32),
        from: (DeviceAddress, ContextHandle, u32),
        n: u64,
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        self.queue("copy_peer", stream, Work::OnDevice { to: to.0.0, from: from.0.0, n })
    }

    fn load_module(&self, image: &[u8]) -> Result<ModuleHandle, DriverError> {
        self.call("load_module", |s| {
            let handle = s.handle();
            s.modules.insert(handle, image.to_vec());
            Ok(ModuleHandle(handle))
        })
    }

    fn unload_module(&self, module: ModuleHandle) -> Result<(), DriverError> {
        self.call("unload_module", |s| s.modules.remove(&module.0).map(drop).ok_or(DriverErrorKind::Other))
    }

    /// Named by the module's image too.
    fn function(&self, module: ModuleHandle, name: &CStr) -> Result<FunctionHandle, DriverError> {
        self.call("function", |s| {
            let image = s.modules.get(&module.0).ok_or(DriverErrorKind::Other)?;
            let name = format!("{}: {}", String::from_utf8_lossy(image), name.to_string_lossy());
            let handle = s.handle();
            s.functions.insert(handle, name);
            Ok(FunctionHandle(handle))
        })
    }

    unsafe fn launch(
        &self,
        function: FunctionHandle,
        grid: [u32; 3],
        block: u32,
        params: &mut [*mut c_void],
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        // SAFETY: the executor's cells are of eight bytes.
        let params = params.iter().map(|param| unsafe { param.cast::<u64>().read() }).collect();
        self.call("launch", |s| {
            let name = s.functions.get(&function.0).ok_or(DriverErrorKind::Other)?.clone();
            s.launched.push(Launched { name, grid, block, params });
            if let Some(hook) = &s.on_launch {
                hook(s.launched.len());
            }
            Ok(())
        })?;
        self.queue("launch", stream, Work::Launch)
    }
}
