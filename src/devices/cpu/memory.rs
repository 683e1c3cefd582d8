//! Host memory of one CPU device: what it may take, what it has taken, and the allocations themselves.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError};

use crate::devices::{DeviceError, DeviceId, MemoryInfo};

/// Every allocation starts at a multiple of this.
pub const ALIGN: usize = 64;

/// Counts what a device's buffers hold and refuses what does not fit.
#[derive(Debug)]
pub struct Ledger {
    device: DeviceId,
    budget: Budget,
    ours_bytes: Mutex<u64>,
}

/// What a device may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// So many bytes: a simulated device.
    Fixed(u64),
    /// What the host has available at the moment, and never more than `limit_bytes` together.
    Host { limit_bytes: Option<u64> },
}

impl Ledger {
    pub fn new(device: DeviceId, budget: Budget) -> Arc<Ledger> {
        Arc::new(Ledger { device, budget, ours_bytes: Mutex::new(0) })
    }

    pub fn info(&self) -> MemoryInfo {
        self.info_with(*self.lock())
    }

    fn info_with(&self, ours_bytes: u64) -> MemoryInfo {
        let (total_bytes, free_bytes) = match self.budget {
            Budget::Fixed(total) => (total, total.saturating_sub(ours_bytes)),
            Budget::Host { limit_bytes } => {
                let host = HostMemory::now();
                let limit = limit_bytes.unwrap_or(u64::MAX);
                (host.total_bytes.min(limit), host.available_bytes.min(limit.saturating_sub(ours_bytes)))
            }
        };
        MemoryInfo { total_bytes, free_bytes, ours_bytes }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, u64> {
        self.ours_bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Zeroed memory; large pieces are zeroed by the operating system when they are first touched.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] when the budget or the host cannot give it; `what` names it there.
    pub fn alloc(self: &Arc<Ledger>, what: &str, n_bytes: u64) -> Result<Memory, DeviceError> {
        let mut ours = self.lock();
        let free_bytes = self.info_with(*ours).free_bytes;
        let out_of_memory = || DeviceError::OutOfMemory {
            device: self.device,
            what: what.to_owned(),
            needed_bytes: n_bytes,
            free_bytes,
        };
        if n_bytes > free_bytes {
            return Err(out_of_memory());
        }
        // Over-allocated with a small alignment: only then does the allocator take zero pages from the system
        // instead of writing zeros.
        let layout = usize::try_from(n_bytes)
            .ok()
            .and_then(|n| n.checked_add(ALIGN))
            .and_then(|n| Layout::from_size_align(n, 16).ok())
            .ok_or_else(out_of_memory)?;
        // SAFETY: the layout's size is at least `ALIGN`, not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(out_of_memory)?;
        // SAFETY: the offset is below `ALIGN`, by which the allocation is larger than `n_bytes`.
        let start = unsafe { base.add(base.as_ptr().align_offset(ALIGN)) };
        *ours += n_bytes;
        Ok(Memory { start, n_bytes: n_bytes as usize, base, layout, ledger: self.clone(), borrows: AtomicI32::new(0) })
    }
}

/// One allocation of a device, given back when dropped.
///
/// Reached through raw pointers by several threads; [`Memory::read`] and [`Memory::write`] keep users apart: many
/// readers or one writer (which may itself be many threads that agree with one another).
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    n_bytes: usize,
    base: NonNull<u8>,
    layout: Layout,
    ledger: Arc<Ledger>,
    /// Number of readers; -1: a writer.
    borrows: AtomicI32,
}

// SAFETY: plain bytes, owned; access goes through the borrow count.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// # Errors
    /// When somebody is writing.
    pub fn read(&self) -> Result<ReadGuard<'_>, DeviceError> {
        let borrowed = self.borrows.fetch_update(Acquire, Relaxed, |n| (0..i32::MAX).contains(&n).then_some(n + 1));
        borrowed.map(|_| ReadGuard { memory: self }).map_err(|_| self.in_use())
    }

    /// # Errors
    /// When somebody is reading or writing.
    pub fn write(&self) -> Result<WriteGuard<'_>, DeviceError> {
        let borrowed = self.borrows.compare_exchange(0, -1, Acquire, Relaxed);
        borrowed.map(|_| WriteGuard { memory: self }).map_err(|_| self.in_use())
    }

    fn in_use(&self) -> DeviceError {
        DeviceError::Failed {
            device: self.ledger.device,
            message: format!("a buffer of {} bytes is in use by another call", self.n_bytes),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `base` came from `alloc_zeroed` with this layout, and guards cannot outlive `self`.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
        *self.ledger.lock() -= self.n_bytes as u64;
    }
}

pub struct ReadGuard<'a> {
    memory: &'a Memory,
}

impl<'a> ReadGuard<'a> {
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: inside the allocation, always initialised, and nobody writes while this guard lives.
        unsafe { std::slice::from_raw_parts(self.memory.start.as_ptr(), self.memory.n_bytes) }
    }
}

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        self.memory.borrows.fetch_sub(1, Release);
    }
}

pub struct WriteGuard<'a> {
    memory: &'a Memory,
}

impl WriteGuard<'_> {
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: inside the allocation, always initialised, and nobody else has it while this guard lives.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start.as_ptr(), self.memory.n_bytes) }
    }

    /// For kernels, whose threads share the memory among themselves. Good while the guard lives.
    pub fn pointer(&self) -> *mut u8 {
        self.memory.start.as_ptr()
    }

    pub fn is_of(&self, memory: &Memory) -> bool {
        std::ptr::eq(self.memory, memory)
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        self.memory.borrows.store(0, Release);
    }
}

/// The host's memory as this process may use it.
#[derive(Clone, Copy, Debug)]
pub struct HostMemory {
    pub total_bytes: u64,
    pub available_bytes: u64,
}

impl HostMemory {
    /// Where the system does not say, there is no limit but the allocator's.
    pub fn now() -> HostMemory {
        let Ok(mut system) = sysinfo::System::new() else {
            return HostMemory { total_bytes: isize::MAX as u64, available_bytes: isize::MAX as u64 };
        };
        system.refresh_memory_specifics(sysinfo::MemoryRefreshKind::nothing().with_ram());
        let (mut total_bytes, mut available_bytes) = (system.total_memory(), system.available_memory());
        // In a container the group's limit counts; its page cache can be reclaimed, so only anonymous memory does.
        if let Some(group) = system.cgroup_limits() {
            total_bytes = total_bytes.min(group.total_memory);
            available_bytes = available_bytes.min(group.total_memory.saturating_sub(group.rss));
        }
        HostMemory { total_bytes, available_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(bytes: u64) -> Arc<Ledger> {
        Ledger::new(DeviceId::cpu(3), Budget::Fixed(bytes))
    }

    #[test]
    fn memory_is_aligned_zeroed_counted_and_given_back() {
        let ledger = ledger(10_000_000);
        for n in [0, 1, 63, 64, 4097, 5_000_000] {
            let memory = ledger.alloc("test", n).unwrap();
            assert_eq!(ledger.info().ours_bytes, n);
            let mut guard = memory.write().unwrap();
            assert_eq!(guard.pointer() as usize % ALIGN, 0);
            assert_eq!(guard.bytes_mut().len() as u64, n);
            assert!(guard.bytes_mut().iter().all(|&b| b == 0));
            guard.bytes_mut().fill(1);
        }
        assert_eq!(ledger.info(), MemoryInfo { total_bytes: 10_000_000, free_bytes: 10_000_000, ours_bytes: 0 });
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_figures() {
        let ledger = ledger(1000);
        let _held = ledger.alloc("weights", 600).unwrap();
        let refused = ledger.alloc("KV cache", 401).unwrap_err();
        let expected = DeviceError::OutOfMemory {
            device: DeviceId::cpu(3),
            what: "KV cache".into(),
            needed_bytes: 401,
            free_bytes: 400,
        };
        assert_eq!(refused, expected);
        ledger.alloc("KV cache", 400).unwrap();
        let host = Ledger::new(DeviceId::cpu(0), Budget::Host { limit_bytes: None });
        assert!(matches!(host.alloc("everything", u64::MAX), Err(DeviceError::OutOfMemory { .. })));
    }

    #[test]
    fn the_host_has_memory() {
        let host = HostMemory::now();
        assert!(host.available_bytes > 0 && host.available_bytes <= host.total_bytes, "{host:?}");
        let limited = Ledger::new(DeviceId::cpu(0), Budget::Host { limit_bytes: Some(5000) });
        let _held = limited.alloc("test", 2000).unwrap();
        assert_eq!(limited.info(), MemoryInfo { total_bytes: 5000, free_bytes: 3000, ours_bytes: 2000 });
    }

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let memory = ledger(100).alloc("test", 10).unwrap();
        let reader = memory.read().unwrap();
        let other = memory.read().unwrap();
        assert!(memory.write().is_err());
        drop((reader, other));
        let writer = memory.write().unwrap();
        assert!(memory.read().is_err() && memory.write().is_err());
        drop(writer);
        assert!(memory.read().is_ok());
    }
}
