//! One answer on its way: prefill, then token after token. A state machine; who computes the steps is not its concern.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::devices::{DeviceError, Step};
use crate::engine::exec::{BATCH_ROWS, Completed, StepKind};
use crate::engine::model::Model;
use crate::engine::protocol::{GenerateRequest, RequestId, StopReason, Summary, Timings};
use crate::engine::sampler::{Sampler, SamplerError};
use crate::engine::session::Session;
use crate::engine::stop_text::StopMatcher;
use crate::engine::text::{PromptIds, TextError, TextModel};
use crate::engine::tokenizer::{StreamDecoder, Tokenizer};

#[derive(Debug, thiserror::Error)]
pub enum GenerationError {
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error("the prompt has {n_prompt} tokens, the context holds {n_ctx}: shorten it or raise --ctx")]
    PromptTooLong { n_prompt: usize, n_ctx: u32 },
    #[error("token id {id} is outside the vocabulary of {n_vocab}")]
    BadToken { id: u32, n_vocab: u32 },
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Whether a prompt can be computed.
pub fn check_prompt(ids: &[u32], n_vocab: u32, n_ctx: u32) -> Result<(), GenerationError> {
    if ids.is_empty() {
        return Err(GenerationError::EmptyPrompt);
    }
    if ids.len() > n_ctx as usize {
        return Err(GenerationError::PromptTooLong { n_prompt: ids.len(), n_ctx });
    }
    match ids.iter().find(|id| **id >= n_vocab) {
        Some(id) => Err(GenerationError::BadToken { id: *id, n_vocab }),
        None => Ok(()),
    }
}

pub struct Generation {
    id: RequestId,
    prompt: Vec<u32>,
    n_cached: usize,
    n_ctx: u32,
    max_tokens: Option<u32>,
    ignore_eog: bool,
    sampler: Sampler,
    decoder: Option<StreamDecoder<Arc<Tokenizer>>>,
    stops: StopMatcher,
    /// Prompt and answer: what penalties look at.
    all_ids: Vec<u32>,
    text: String,
    phase: Phase,
    ending: Option<Ending>,
    started: Instant,
    prefill_ended: Option<Instant>,
    n_prefilled: usize,
    n_decoded: usize,
    thinks_first: bool,
    /// When the last decoded tokens came.
    recent: VecDeque<Instant>,
}

/// Tokens that a rate "now" is taken over.
const N_RECENT: usize = 32;

enum Phase {
    /// `n_sent` tokens of the prompt are computed or on their way (cached ones included).
    Prefill { n_sent: usize },
    /// The token to compute next; `None` while its step is on its way.
    Decode { next: Option<u32> },
}

enum Ending {
    Stop(StopReason),
    Failed(GenerationError),
}

/// What became of a completed step.
pub enum Next {
    Wait,
    Prefilling { n_done: usize, n_total: usize },
    Token { token: u32, text: String, finished: bool },
    Finished,
}

impl Generation {
    /// Tokenises the prompt and finds how much of it the session's cache already holds.
    pub fn new(
        id: RequestId,
        request: &GenerateRequest,
        text: &TextModel,
        session: &mut Session,
        model: &Model,
    ) -> Result<Generation, GenerationError> {
        let PromptIds { ids: prompt, thinks_first, continues } = text.prompt_ids(&request.prompt, session.tokens())?;
        check_prompt(&prompt, model.programs.spec.n_vocab, model.n_ctx)?;
        let sampler = text.sampler(&request.sampling)?;
        if !request.reuse_cache {
            session.clear();
        }
        let n_cached = session.keep_common(&prompt);
        Ok(Generation {
            id,
            all_ids: prompt.clone(),
            prompt,
            n_cached,
            n_ctx: model.n_ctx,
            max_tokens: request.max_tokens,
            ignore_eog: request.ignore_eog,
            sampler,
            decoder: text.stream_decoder(continues),
            stops: StopMatcher::new(&request.stop),
            text: String::new(),
            phase: Phase::Prefill { n_sent: n_cached },
            ending: None,
            started: Instant::now(),
            prefill_ended: None,
            n_prefilled: 0,
            n_decoded: 0,
            thinks_first,
            recent: VecDeque::with_capacity(N_RECENT),
        })
    }

    pub fn id(&self) -> RequestId {
        self.id
    }

    pub fn prompt(&self) -> &[u32] {
        &self.prompt
    }

    pub fn n_cached(&self) -> usize {
        self.n_cached
    }

    pub fn thinks_first(&self) -> bool {
        self.thinks_first
    }

    /// Over the last tokens; `None` before the second one.
    pub fn recent_tokens_per_s(&self) -> Option<f64> {
        let (first, last) = (self.recent.front()?, self.recent.back()?);
        let time = last.duration_since(*first).as_secs_f64();
        (time > 0.0).then(|| (self.recent.len() - 1) as f64 / time)
    }

    /// What the steps of [`Generation::next_step`] are for at the moment.
    pub fn step_kind(&self) -> StepKind {
        match self.phase {
            Phase::Prefill { .. } => StepKind::Prefill,
            Phase::Decode { .. } => StepKind::Decode,
        }
    }

    /// Whether the end is decided: it is finished as soon as nothing is in flight.
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    pub fn stop(&mut self) {
        self.ending.get_or_insert(Ending::Stop(StopReason::Stopped));
    }

    /// A step failed. One that was stopped on request is no failure.
    pub fn fail(&mut self, error: DeviceError) {
        let ending = match error {
            DeviceError::Stopped => Ending::Stop(StopReason::Stopped),
            error => Ending::Failed(error.into()),
        };
        self.ending.get_or_insert(ending);
    }

    /// The next step that can be sent, if any can be now.
    pub fn next_step(&mut self) -> Option<Step> {
        if self.is_ending() {
            return None;
        }
        match &mut self.phase {
            Phase::Prefill { n_sent } => {
                let first = *n_sent;
                let last = (first + BATCH_ROWS).min(self.prompt.len());
                if first == last {
                    return None;
                }
                *n_sent = last;
                let n_tokens = (last - first) as u32;
                let outputs = if last == self.prompt.len() { n_tokens - 1..n_tokens } else { 0..0 };
                Some(Step { tokens: self.prompt[first..last].to_vec(), first_position: first as u32, outputs })
            }
            Phase::Decode { next } => {
                let token = next.take()?;
                Some(Step { tokens: vec![token], first_position: self.all_ids.len() as u32 - 1, outputs: 0..1 })
            }
        }
    }

    /// Takes a computed step: notes it in the session and, if it has logits, chooses the next token.
    pub fn on_completed(&mut self, completed: Completed, session: &mut Session, text: &TextModel) -> Next {
        let step = &completed.step;
        if self.has_failed() || !session.append(step.first_position, &step.tokens) {
            return Next::Wait;
        }
        match self.phase {
            Phase::Prefill { .. } => {
                self.n_prefilled += step.n_tokens();
                if step.outputs.is_empty() {
                    let n_done = self.n_cached + self.n_prefilled;
                    return Next::Prefilling { n_done, n_total: self.prompt.len() };
                }
                self.prefill_ended = Some(Instant::now());
                self.phase = Phase::Decode { next: None };
            }
            Phase::Decode { .. } => {
                self.n_decoded += 1;
                if self.recent.len() == N_RECENT {
                    self.recent.pop_front();
                }
                self.recent.push_back(Instant::now());
            }
        }
        if self.is_ending() {
            return Next::Wait;
        }
        if self.max_tokens == Some(0) {
            self.ending = Some(Ending::Stop(StopReason::MaxTokens));
            return Next::Finished;
        }
        match self.sampler.sample(&completed.logits, &self.all_ids) {
            Ok(token) => self.take_token(token, session.n_past(), text),
            Err(error) => {
                self.ending = Some(Ending::Failed(error.into()));
                Next::Finished
            }
        }
    }

    fn take_token(&mut self, token: u32, n_past: u32, text: &TextModel) -> Next {
        self.all_ids.push(token);
        let is_end = text.is_eog(token) && !self.ignore_eog;
        let mut passed = String::new();
        let mut stop = is_end.then_some(StopReason::Eog);
        if !is_end && let Some(decoder) = &mut self.decoder {
            let found = self.stops.push(&decoder.push(token));
            passed = found.text;
            stop = found.stopped.then_some(StopReason::StopText);
        }
        let n_answer = self.all_ids.len() - self.prompt.len();
        if stop.is_none() && self.max_tokens.is_some_and(|max| n_answer >= max as usize) {
            stop = Some(StopReason::MaxTokens);
        }
        if stop.is_none() && n_past >= self.n_ctx {
            stop = Some(StopReason::Context);
        }
        match stop {
            Some(reason) => {
                self.ending = Some(Ending::Stop(reason));
                if reason != StopReason::StopText {
                    passed += &self.rest_of_text();
                }
            }
            None => self.phase = Phase::Decode { next: Some(token) },
        }
        self.text += &passed;
        Next::Token { token, text: passed, finished: stop.is_some() }
    }

    /// What decoder and stop matcher hold back.
    fn rest_of_text(&mut self) -> String {
        let held = self.decoder.as_mut().map(|d| d.flush()).unwrap_or_default();
        let passed = self.stops.push(&held);
        if passed.stopped { passed.text } else { passed.text + &self.stops.finish() }
    }

    fn has_failed(&self) -> bool {
        matches!(self.ending, Some(Ending::Failed(_)))
    }

    pub fn timings(&self) -> Timings {
        let prefill = self.prefill_ended.map_or_else(|| self.started.elapsed(), |end| end - self.started);
        Timings {
            prefill_tokens: self.n_prefilled,
            prefill,
            decode_tokens: self.n_decoded,
            decode: self.prefill_ended.map_or(Duration::ZERO, |end| end.elapsed()),
            ..Timings::default()
        }
    }

    /// The end, once nothing is in flight. Text that was held back belongs to a stopped answer too.
    pub fn finish(mut self) -> Result<Summary, GenerationError> {
        let timings = self.timings();
        let stop = match self.ending.take() {
            Some(Ending::Failed(error)) => return Err(error),
            Some(Ending::Stop(reason)) => reason,
            None => StopReason::Stopped,
        };
        if stop == StopReason::Stopped {
            let rest = self.rest_of_text();
            self.text += &rest;
        }
        let ids = self.all_ids.split_off(self.prompt.len());
        Ok(Summary { ids, text: self.text, stop, timings })
    }
}
