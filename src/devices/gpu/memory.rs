//! A device's memory: what it has taken, and pieces of it.
//!
//! Drivers round large allocations up to 2 MiB, which for the matrices of a small model is several per cent. So pieces
//! of up to half a slab are cut from slabs, first fit, and a slab is given back when nothing is left in it; larger
//! pieces are allocations of their own. What is counted as taken is what [`Sizes::taken_bytes`] says of each piece,
//! before and after; the unused rest of a slab counts as free.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::driver::DeviceAddress;
use super::handles::{Bound, Context, DeviceMemory};
use crate::devices::{DeviceError, MemoryInfo};

/// Pieces start and end at multiples of this.
pub const GRANULE_BYTES: u64 = 256;
/// Behind each piece, so that kernels may read whole words past the end of the last row.
pub const SLACK_BYTES: u64 = 64;

const MAX_SLAB_BYTES: u64 = 64 << 20;
const MIN_SLAB_BYTES: u64 = 2 << 20;
/// To which drivers round large allocations up.
const LARGE_GRANULE_BYTES: u64 = 2 << 20;
/// The driver is asked for its free memory at most so often.
const FREE_AGE: Duration = Duration::from_millis(50);

/// How allocations are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocation {
    /// Small ones from slabs.
    Slabs,
    /// Each one for itself, so that a tool that watches accesses sees where a buffer ends.
    Separate,
}

/// What pieces take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// 0: no slabs.
    slab_bytes: u64,
}

impl Sizes {
    /// `total_bytes`: the device's memory, by which the size of slabs is chosen.
    pub fn new(total_bytes: u64, allocation: Allocation) -> Sizes {
        let slab_bytes = match allocation {
            Allocation::Slabs => (total_bytes / 256).clamp(MIN_SLAB_BYTES, MAX_SLAB_BYTES).next_power_of_two(),
            Allocation::Separate => 0,
        };
        Sizes { slab_bytes }
    }

    fn is_small(self, n_bytes: u64) -> bool {
        n_bytes <= self.slab_bytes / 2
    }

    /// What a piece of `n_bytes` takes.
    pub fn taken_bytes(self, n_bytes: u64) -> u64 {
        let with_slack = n_bytes.saturating_add(SLACK_BYTES);
        let granule =
            if self.slab_bytes == 0 || self.is_small(with_slack) { GRANULE_BYTES } else { LARGE_GRANULE_BYTES };
        with_slack.checked_next_multiple_of(granule).unwrap_or(u64::MAX)
    }
}

/// All memory of one device.
pub struct Ledger {
    context: Arc<Context>,
    sizes: Sizes,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ours_bytes: u64,
    slabs: BTreeMap<u64, Slab>,
    next_slab: u64,
    /// The driver's free and total bytes, and when it said so.
    seen: Option<(Instant, u64, u64)>,
}

struct Slab {
    memory: DeviceMemory,
    /// Offset and size of what is free. Neighbours are always joined.
    free: BTreeMap<u64, u64>,
}

impl Slab {
    fn new(memory: DeviceMemory) -> Slab {
        let free = BTreeMap::from([(0, memory.n_bytes())]);
        Slab { memory, free }
    }

    /// Offset of so many bytes, if there are.
    fn take(&mut self, n_bytes: u64) -> Option<u64> {
        let (&offset, &size) = self.free.iter().find(|(_, size)| **size >= n_bytes)?;
        self.free.remove(&offset);
        if size > n_bytes {
            self.free.insert(offset + n_bytes, size - n_bytes);
        }
        Some(offset)
    }

    fn give_back(&mut self, offset: u64, n_bytes: u64) {
        let (mut start, mut end) = (offset, offset + n_bytes);
        if let Some(size) = self.free.remove(&end) {
            end += size;
        }
        if let Some((&before, &size)) = self.free.range(..start).next_back()
            && before + size == start
        {
            self.free.remove(&before);
            start = before;
        }
        self.free.insert(start, end - start);
    }

    fn free_bytes(&self) -> u64 {
        self.free.values().sum()
    }
}

impl Ledger {
    pub fn new(context: Arc<Context>, sizes: Sizes) -> Arc<Ledger> {
        Arc::new(Ledger { context, sizes, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory of undefined content; `what` names it where there is no room.
    pub fn alloc(self: &Arc<Ledger>, bound: Bound<'_>, what: &str, n_bytes: u64) -> Result<Piece, DeviceError> {
        let taken = self.sizes.taken_bytes(n_bytes);
        let mut state = self.lock();
        let (address, place) = self.place(&mut state, bound, what, taken)?;
        state.ours_bytes += taken;
        Ok(Piece { address, n_bytes, taken_bytes: taken, place, ledger: self.clone() })
    }

    fn place(
        &self,
        state: &mut State,
        bound: Bound<'_>,
        what: &str,
        n_bytes: u64,
    ) -> Result<(DeviceAddress, Place), DeviceError> {
        if self.sizes.is_small(n_bytes) {
            let fit = state.slabs.iter_mut().find_map(|(id, slab)| Some((*id, slab.take(n_bytes)?)));
            if let Some((slab, offset)) = fit {
                let start = state.slabs[&slab].memory.address();
                return Ok((DeviceAddress(start.0 + offset), Place::Slab { slab, offset }));
            }
            state.seen = None;
            match DeviceMemory::new(bound, what, self.sizes.slab_bytes) {
                Ok(memory) => {
                    let address = memory.address();
                    let mut slab = Slab::new(memory);
                    let offset = slab.take(n_bytes).unwrap_or(0);
                    let id = state.next_slab;
                    state.next_slab += 1;
                    state.slabs.insert(id, slab);
                    return Ok((address, Place::Slab { slab: id, offset }));
                }
                // No room for a whole slab; there may be for what is asked.
                Err(DeviceError::OutOfMemory { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        state.seen = None;
        let memory = DeviceMemory::new(bound, what, n_bytes)?;
        Ok((memory.address(), Place::Own { _memory: memory }))
    }

    pub fn info(&self, bound: Bound<'_>) -> Result<MemoryInfo, DeviceError> {
        let mut state = self.lock();
        let seen = state.seen.filter(|(at, ..)| at.elapsed() < FREE_AGE);
        let (_, free_bytes, total_bytes) = match seen {
            Some(seen) => seen,
            None => {
                let (free_bytes, total_bytes) = bound.call(|driver| driver.memory())?;
                *state.seen.insert((Instant::now(), free_bytes, total_bytes))
            }
        };
        let in_slabs: u64 = state.slabs.values().map(Slab::free_bytes).sum();
        Ok(MemoryInfo { total_bytes, free_bytes: free_bytes + in_slabs, ours_bytes: state.ours_bytes })
    }

    pub fn ours_bytes(&self) -> u64 {
        self.lock().ours_bytes
    }
}

enum Place {
    Own { _memory: DeviceMemory },
    Slab { slab: u64, offset: u64 },
}

/// Memory of a device, given back when dropped.
pub struct Piece {
    address: DeviceAddress,
    n_bytes: u64,
    taken_bytes: u64,
    place: Place,
    ledger: Arc<Ledger>,
}

impl Piece {
    pub fn address(&self) -> DeviceAddress {
        self.address
    }

    /// As asked for.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// The address of a part of it.
    ///
    /// # Errors
    /// [`DeviceError::OutOfRange`]; `what` says of what.
    pub fn range(&self, what: &'static str, offset: u64, n_bytes: u64) -> Result<DeviceAddress, DeviceError> {
        let inside = offset.checked_add(n_bytes).is_some_and(|end| end <= self.n_bytes);
        if !inside {
            let device = self.ledger.context.device();
            let buffer_bytes = self.n_bytes;
            return Err(DeviceError::OutOfRange { device, what, offset, n_bytes, buffer_bytes });
        }
        Ok(DeviceAddress(self.address.0 + offset))
    }

    /// Fills it all with zeros, in a stream's order.
    pub fn zero(&self, bound: Bound<'_>, stream: &super::handles::Stream) -> Result<(), DeviceError> {
        bound.call(|driver| driver.fill(self.address, 0, self.taken_bytes, stream.handle()))
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut state = self.ledger.lock();
        state.ours_bytes -= self.taken_bytes;
        // Freed outside of the lock: the driver may take its time.
        let mut emptied = None;
        match &self.place {
            Place::Own { .. } => state.seen = None,
            Place::Slab { slab: id, offset } => {
                let Some(slab) = state.slabs.get_mut(id) else { return };
                slab.give_back(*offset, self.taken_bytes);
                if slab.free_bytes() == slab.memory.n_bytes() {
                    emptied = state.slabs.remove(id);
                    state.seen = None;
                }
            }
        }
        drop(state);
        drop(emptied);
    }
}
