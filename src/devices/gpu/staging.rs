//! Bytes between host and device through pinned memory, each kind on a stream of its own: weights beside a run
//! ([`Staging`]), hops and KV between runs ([`Transfers`]).

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::driver::DeviceAddress;
use super::handles::{Bound, Event, PinnedMemory, Stream};
use crate::devices::DeviceError;

/// At the pace of a fast link, a chunk is some 70 microseconds: long beside the few of queuing it.
const CHUNK_BYTES: usize = 4 << 20;
/// Two for each of eight threads: one is filled while the other is on its way.
const N_CHUNKS: usize = 16;

/// Takes weights to the device. Paging in and copying into pinned memory is the slow part, so every thread that calls
/// fills chunks of its own and only the copies are in one order.
pub struct Staging {
    stream: Stream,
    chunks: Mutex<Chunks>,
    returned: Condvar,
}

#[derive(Default)]
struct Chunks {
    /// The one whose copy was queued first is in front.
    resting: VecDeque<PinnedMemory>,
    n_made: usize,
}

impl Staging {
    pub fn new(bound: Bound<'_>) -> Result<Staging, DeviceError> {
        Ok(Staging { stream: Stream::new(bound)?, chunks: Mutex::default(), returned: Condvar::new() })
    }

    /// Copies `data` and waits until it has arrived. Any number of threads at a time.
    pub fn send(&self, bound: Bound<'_>, to: DeviceAddress, data: &[u8]) -> Result<(), DeviceError> {
        let sent = self.queue(bound, to, data);
        if sent.is_err() {
            // What is queued already must not arrive in memory that the caller gives up. A second error adds nothing.
            let _ = self.stream.sync(bound);
        }
        sent?.wait(bound)
    }

    fn queue(&self, bound: Bound<'_>, to: DeviceAddress, data: &[u8]) -> Result<Event, DeviceError> {
        let arrived = Event::new(bound)?;
        let mut to = to.0;
        for part in data.chunks(CHUNK_BYTES) {
            let mut lent = self.take(bound)?;
            let chunk = lent.chunk()?;
            chunk.bytes(bound)?[..part.len()].copy_from_slice(part);
            chunk.send(bound, &self.stream, DeviceAddress(to), part.len())?;
            to += part.len() as u64;
        }
        arrived.record(bound, &self.stream)?;
        Ok(arrived)
    }

    fn lock(&self) -> MutexGuard<'_, Chunks> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A chunk whose copy has ended, else a new one, else the one whose copy ends next.
    fn take<'a>(&'a self, bound: Bound<'a>) -> Result<Lent<'a>, DeviceError> {
        let mut chunks = self.lock();
        loop {
            let may_grow = chunks.n_made < N_CHUNKS;
            let front_will_do = match chunks.resting.front() {
                Some(front) => !may_grow || front.is_idle(bound)?,
                None => false,
            };
            if front_will_do && let Some(chunk) = chunks.resting.pop_front() {
                return Ok(Lent { staging: self, device: bound.device(), chunk: Some(chunk) });
            }
            if may_grow {
                chunks.n_made += 1;
                drop(chunks);
                let mut lent = Lent { staging: self, device: bound.device(), chunk: None };
                lent.chunk = Some(PinnedMemory::new(bound, CHUNK_BYTES)?);
                return Ok(lent);
            }
            chunks = self.returned.wait(chunks).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Frees the chunks that are not in use.
    pub fn trim(&self) {
        let resting = {
            let mut chunks = self.lock();
            chunks.n_made -= chunks.resting.len();
            std::mem::take(&mut chunks.resting)
        };
        drop(resting);
    }
}

/// A chunk that goes back when dropped.
struct Lent<'a> {
    staging: &'a Staging,
    device: crate::devices::DeviceId,
    chunk: Option<PinnedMemory>,
}

impl Lent<'_> {
    fn chunk(&mut self) -> Result<&mut PinnedMemory, DeviceError> {
        let device = self.device;
        self.chunk.as_mut().ok_or_else(|| DeviceError::Failed { device, message: "no staging memory".into() })
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut chunks = self.staging.lock();
        match self.chunk.take() {
            Some(chunk) => chunks.resting.push_back(chunk),
            None => chunks.n_made -= 1,
        }
        self.staging.returned.notify_one();
    }
}

/// Copies that the caller waits for: one is on its way while the other pinned buffer is filled or emptied.
pub struct Transfers {
    stream: Stream,
    /// Empty until the first transfer.
    buffers: Mutex<Vec<PinnedMemory>>,
}

/// Of one of the two buffers.
const TRANSFER_BYTES: usize = 2 << 20;

impl Transfers {
    pub fn new(bound: Bound<'_>) -> Result<Transfers, DeviceError> {
        Ok(Transfers { stream: Stream::new(bound)?, buffers: Mutex::default() })
    }

    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    fn buffers(&self, bound: Bound<'_>) -> Result<MutexGuard<'_, Vec<PinnedMemory>>, DeviceError> {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        while buffers.len() < 2 {
            buffers.push(PinnedMemory::new(bound, TRANSFER_BYTES)?);
        }
        Ok(buffers)
    }

    pub fn upload(&self, bound: Bound<'_>, to: DeviceAddress, data: &[u8]) -> Result<(), DeviceError> {
        let mut buffers = self.buffers(bound)?;
        let mut to = to.0;
        let mut queue = || {
            for (index, part) in data.chunks(TRANSFER_BYTES).enumerate() {
                let buffer = &mut buffers[index % 2];
                buffer.bytes(bound)?[..part.len()].copy_from_slice(part);
                buffer.send(bound, &self.stream, DeviceAddress(to), part.len())?;
                to += part.len() as u64;
            }
            Ok(())
        };
        let queued = queue();
        // Also after an error: nothing may arrive later.
        let arrived = buffers.iter_mut().try_for_each(|buffer| buffer.wait(bound));
        queued.and(arrived)
    }

    pub fn download(&self, bound: Bound<'_>, from: DeviceAddress, data: &mut [u8]) -> Result<(), DeviceError> {
        let mut buffers = self.buffers(bound)?;
        let mut from = from.0;
        // The part that is on its way, and its buffer.
        let mut pending: Option<(&mut [u8], usize)> = None;
        for (index, part) in data.chunks_mut(TRANSFER_BYTES).enumerate() {
            buffers[index % 2].receive(bound, &self.stream, DeviceAddress(from), part.len())?;
            from += part.len() as u64;
            if let Some((part, buffer)) = pending.replace((part, index % 2)) {
                part.copy_from_slice(&buffers[buffer].bytes(bound)?[..part.len()]);
            }
        }
        if let Some((part, buffer)) = pending {
            part.copy_from_slice(&buffers[buffer].bytes(bound)?[..part.len()]);
        }
        Ok(())
    }
}
