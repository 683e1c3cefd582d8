//! A device's memory, split by whose it is.

use crate::devices::telemetry::{PowerState, Reading};
use crate::engine::protocol::DeviceStats;

/// The pieces of a device's memory. Together they are exactly the total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySplit {
    pub total_bytes: u64,
    pub weight_bytes: u64,
    pub kv_bytes: u64,
    /// Activations and working memory.
    pub scratch_bytes: u64,
    /// What a change under way has brought here already.
    pub staged_bytes: u64,
    /// Other programs, and what the driver or the system keeps.
    pub others_bytes: u64,
    pub free_bytes: u64,
}

impl MemorySplit {
    /// `None` where the total or what is used of it is not known. The two sources are of different moments, so a piece
    /// is cut where the pieces before it leave no room.
    pub fn new(stats: Option<&DeviceStats>, reading: Option<&Reading>) -> Option<MemorySplit> {
        if reading.is_some_and(|r| r.state == PowerState::Gone) {
            return None;
        }
        let seen = reading.and_then(|r| Some((r.memory_total_bytes?, r.memory_used_bytes?)));
        let counted = stats.map(|s| (s.total_bytes, s.total_bytes.saturating_sub(s.free_bytes)));
        let (total_bytes, used_bytes) = seen.or(counted).filter(|(total, _)| *total > 0)?;
        let ours = stats.map_or([0; 3], |s| [s.weight_bytes, s.kv_bytes, s.scratch_bytes]);
        let ours_bytes = stats.map_or(0, |s| s.ours_bytes).max(ours.iter().sum());
        let staged_bytes = ours_bytes - ours.iter().sum::<u64>();
        let mut free_bytes = total_bytes;
        let mut take = |n_bytes: u64| {
            let taken = n_bytes.min(free_bytes);
            free_bytes -= taken;
            taken
        };
        let [weight_bytes, kv_bytes, scratch_bytes] = ours.map(&mut take);
        let staged_bytes = take(staged_bytes);
        let others_bytes = take(used_bytes.saturating_sub(ours_bytes));
        let split =
            MemorySplit { total_bytes, weight_bytes, kv_bytes, scratch_bytes, staged_bytes, others_bytes, free_bytes };
        Some(split)
    }

    pub fn used_bytes(&self) -> u64 {
        self.total_bytes - self.free_bytes
    }
}
