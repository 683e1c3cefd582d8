//! Logits of given ids, as they are: for comparing with other programs.

use std::time::Instant;

use crate::devices::{DeviceError, Step};
use crate::engine::exec::{BATCH_ROWS, Completed, OUTPUT_ROWS};
use crate::engine::protocol::{Event, LogitRows, RequestId, StopReason, Summary, Timings};

pub struct LogitsWork {
    id: RequestId,
    ids: Vec<u32>,
    which: LogitRows,
    n_sent: usize,
    n_done: usize,
    failed: Option<DeviceError>,
    started: Instant,
}

impl LogitsWork {
    pub fn new(id: RequestId, ids: Vec<u32>, which: LogitRows) -> LogitsWork {
        LogitsWork { id, ids, which, n_sent: 0, n_done: 0, failed: None, started: Instant::now() }
    }

    pub fn id(&self) -> RequestId {
        self.id
    }

    /// The first failure counts: later ones follow from it.
    pub fn fail(&mut self, error: DeviceError) {
        self.failed.get_or_insert(error);
    }

    pub fn next_step(&mut self) -> Option<Step> {
        let first = self.n_sent;
        if self.failed.is_some() || first == self.ids.len() {
            return None;
        }
        let n_rows = match self.which {
            LogitRows::All => OUTPUT_ROWS,
            LogitRows::Last => BATCH_ROWS,
        };
        let last = (first + n_rows).min(self.ids.len());
        self.n_sent = last;
        let n_tokens = (last - first) as u32;
        let outputs = match self.which {
            LogitRows::All => 0..n_tokens,
            LogitRows::Last if last == self.ids.len() => n_tokens - 1..n_tokens,
            LogitRows::Last => 0..0,
        };
        Some(Step { tokens: self.ids[first..last].to_vec(), first_position: first as u32, outputs })
    }

    pub fn on_completed(&mut self, completed: Completed, n_vocab: u32) -> Option<Event> {
        self.n_done += completed.step.n_tokens();
        let first_position = completed.step.first_position + completed.step.outputs.start;
        let logits = completed.logits;
        (!logits.is_empty()).then_some(Event::Logits { id: self.id, first_position, n_vocab, logits })
    }

    pub fn finish(self) -> Result<Summary, DeviceError> {
        let stop = match self.failed {
            None => StopReason::MaxTokens,
            Some(DeviceError::Stopped) => StopReason::Stopped,
            Some(error) => return Err(error),
        };
        let timings = Timings { prefill_tokens: self.n_done, prefill: self.started.elapsed(), ..Timings::default() };
        Ok(Summary { ids: vec![], text: String::new(), stop, timings })
    }
}
