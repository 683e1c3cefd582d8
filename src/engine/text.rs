//! A model's text side: tokenizer and chat template.

use crate::engine::gguf::{Gguf, GgufError};
use crate::engine::protocol::{ChatMessage, Prompt};
use crate::engine::sampler::{Sampler, SamplerError, SamplerSettings, breaker_sequences};
use std::sync::Arc;

use crate::engine::template::{ChatTemplate, Given, RenderInput, TemplateError};
use crate::engine::tokenizer::{DecodeOptions, EncodeOptions, StreamDecoder, Tokenizer, TokenizerError, VocabSource};

#[derive(Debug, thiserror::Error)]
pub enum TextError {
    #[error("this model's text cannot be read: {0}")]
    NoTokenizer(String),
    #[error("this model's chat template cannot be used: {0}")]
    NoTemplate(String),
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Gguf(#[from] GgufError),
}

/// Text in, ids out, and back. A model whose tokenizer is unknown can still be run on ids.
pub struct TextModel {
    tokenizer: Result<Arc<Tokenizer>, String>,
    template: Result<ChatTemplate, String>,
    /// What a user should know: a missing template, an unusable tokenizer.
    pub notices: Vec<String>,
}

impl TextModel {
    pub fn from_gguf(gguf: &Gguf) -> TextModel {
        let mut notices = vec![];
        let tokenizer = tokenizer(gguf).map(Arc::new).map_err(|e| e.to_string());
        if let Err(error) = &tokenizer {
            notices.push(format!("{error}; only prompts given as ids can be run"));
        }
        let template = match template(gguf, tokenizer.as_deref().ok()) {
            Ok(loaded) => {
                notices.extend(loaded.notice);
                Ok(loaded.template)
            }
            Err(error) => {
                notices.push(format!("the chat template cannot be used: {error}"));
                Err(error.to_string())
            }
        };
        TextModel { tokenizer, template, notices }
    }

    pub fn tokenizer(&self) -> Result<&Tokenizer, TextError> {
        self.tokenizer.as_deref().map_err(|e| TextError::NoTokenizer(e.clone()))
    }

    pub fn prompt_ids(&self, prompt: &Prompt) -> Result<Vec<u32>, TextError> {
        match prompt {
            Prompt::Ids(ids) => Ok(ids.clone()),
            Prompt::Text(text) => {
                Ok(self.tokenizer()?.encode(text, EncodeOptions { add_special: true, parse_special: true }))
            }
            Prompt::Chat(messages) => {
                let text = self.render(messages)?;
                // The template writes BOS itself where it wants one: none is added a second time.
                let tokenizer = self.tokenizer()?;
                let starts_with_bos = tokenizer
                    .bos()
                    .and_then(|id| tokenizer.token_text(id))
                    .is_some_and(|bos| !bos.is_empty() && text.starts_with(bos));
                let options = EncodeOptions { add_special: !starts_with_bos, parse_special: true };
                Ok(tokenizer.encode(&text, options))
            }
        }
    }

    fn render(&self, messages: &[ChatMessage]) -> Result<String, TextError> {
        let template = self.template.as_ref().map_err(|e| TextError::NoTemplate(e.clone()))?;
        let messages = serde_json::json!(messages);
        Ok(template.render(&RenderInput {
            messages: &messages,
            tools: Given::Null,
            documents: Given::Null,
            add_generation_prompt: true,
            kwargs: &serde_json::Map::new(),
            now: chrono::Local::now().naive_local(),
        })?)
    }

    pub fn sampler(&self, settings: &SamplerSettings) -> Result<Sampler, SamplerError> {
        let breakers = match self.tokenizer.as_deref() {
            Ok(tokenizer) if settings.dry_multiplier > 0.0 => {
                let n_vocab = tokenizer.n_vocab() as u32;
                let tokens = (0..n_vocab).map(|id| (id, tokenizer.token_bytes(id).unwrap_or_default()));
                let options = EncodeOptions { add_special: false, parse_special: false };
                breaker_sequences(&settings.dry_sequence_breakers, tokens, |text| tokenizer.encode(text, options))
            }
            _ => vec![],
        };
        Sampler::new(settings, &breakers)
    }

    pub fn stream_decoder(&self) -> Option<StreamDecoder<Arc<Tokenizer>>> {
        let tokenizer = self.tokenizer.as_ref().ok()?.clone();
        Some(StreamDecoder::new(tokenizer, DecodeOptions { show_special: false, ..DecodeOptions::default() }))
    }

    pub fn is_eog(&self, token: u32) -> bool {
        self.tokenizer.as_ref().is_ok_and(|t| t.is_eog(token))
    }
}

/// The tokenizer that a file describes.
pub fn tokenizer(gguf: &Gguf) -> Result<Tokenizer, TextError> {
    Ok(Tokenizer::new(VocabSource::from_metadata(gguf.metadata())?)?)
}

/// A chat template and what should be said of it.
pub struct LoadedTemplate {
    pub template: ChatTemplate,
    pub notice: Option<String>,
}

/// The template that a file holds, else a default.
pub fn template(gguf: &Gguf, tokenizer: Option<&Tokenizer>) -> Result<LoadedTemplate, TextError> {
    let Some(source) = gguf.metadata().opt_str("tokenizer.chat_template")? else {
        let notice = "this model has no chat template; messages are written as ChatML".to_owned();
        return Ok(LoadedTemplate { template: ChatTemplate::default_for_missing()?, notice: Some(notice) });
    };
    let text = |id: Option<u32>| tokenizer.and_then(|t| t.token_text(id?)).unwrap_or_default();
    let bos = text(tokenizer.and_then(Tokenizer::bos));
    let eos = text(tokenizer.and_then(Tokenizer::eos));
    Ok(LoadedTemplate { template: ChatTemplate::new(source, bos, eos)?, notice: None })
}
