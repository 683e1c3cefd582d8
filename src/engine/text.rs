//! A model's text side: tokenizer and chat template.

use crate::engine::gguf::{Gguf, GgufError};
use crate::engine::protocol::{ChatMessage, Prompt};
use crate::engine::sampler::{Sampler, SamplerError, SamplerSettings, breaker_sequences};
use std::sync::Arc;

use crate::engine::template::{ChatTemplate, Given, RenderInput, TemplateError};
use crate::engine::tokenizer::{
    DecodeOptions, EncodeOptions, StreamDecoder, TokenType, Tokenizer, TokenizerError, VocabSource,
};

#[derive(Debug, thiserror::Error)]
pub enum TextError {
    #[error("this model's text cannot be read: {0}")]
    NoTokenizer(String),
    #[error("this model's chat template cannot be used: {0}")]
    NoTemplate(String),
    #[error("only a last message of the role 'assistant' can go on, this one's is {role:?}")]
    NoAnswer { role: String },
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

    /// `cached`: the tokens that the KV cache holds, so that an answer that goes on is made of the same ones.
    pub fn prompt_ids(&self, prompt: &Prompt, cached: &[u32]) -> Result<PromptIds, TextError> {
        match prompt {
            Prompt::Ids(ids) => Ok(PromptIds { ids: ids.clone(), thinks_first: false, continues: false }),
            Prompt::Text(text) => {
                let options = EncodeOptions { add_special: true, parse_special: true };
                let ids = self.tokenizer()?.encode(text, options);
                Ok(PromptIds { ids, thinks_first: opens_thought(text), continues: false })
            }
            Prompt::Chat(messages) => self.chat_ids(messages),
            Prompt::Continue(messages) => {
                let role = |m: Option<&ChatMessage>| m.map(|m| m.role.clone()).unwrap_or_default();
                let (answer, before) = match messages.split_last() {
                    Some((last, before)) if last.role == "assistant" => (&last.content, before),
                    last => return Err(TextError::NoAnswer { role: role(last.map(|(last, _)| last)) }),
                };
                let mut prompt = self.chat_ids(before)?;
                let tokenizer = self.tokenizer()?;
                let cached = cached.strip_prefix(&prompt.ids[..]).unwrap_or_default();
                prompt.ids.extend(answer_ids(tokenizer, answer, cached));
                Ok(PromptIds { continues: !answer.is_empty(), ..prompt })
            }
        }
    }

    fn chat_ids(&self, messages: &[ChatMessage]) -> Result<PromptIds, TextError> {
        let text = self.render(messages)?;
        // The template writes BOS itself where it wants one: none is added a second time.
        let tokenizer = self.tokenizer()?;
        let starts_with_bos = tokenizer
            .bos()
            .and_then(|id| tokenizer.token_text(id))
            .is_some_and(|bos| !bos.is_empty() && text.starts_with(bos));
        let options = EncodeOptions { add_special: !starts_with_bos, parse_special: true };
        let ids = tokenizer.encode(&text, options);
        Ok(PromptIds { ids, thinks_first: opens_thought(&text), continues: false })
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

    /// `continues`: what comes goes on a text, so that a space it begins with belongs to it.
    pub fn stream_decoder(&self, continues: bool) -> Option<StreamDecoder<Arc<Tokenizer>>> {
        let tokenizer = self.tokenizer.as_ref().ok()?.clone();
        let options = DecodeOptions { strip_space_prefix: !continues, ..DecodeOptions::default() };
        Some(StreamDecoder::new(tokenizer, options))
    }

    pub fn is_eog(&self, token: u32) -> bool {
        self.tokenizer.as_ref().is_ok_and(|t| t.is_eog(token))
    }
}

/// A prompt as the model gets it.
pub struct PromptIds {
    pub ids: Vec<u32>,
    /// It ends with the opening of a thought.
    pub thinks_first: bool,
    /// It ends with the beginning of the answer.
    pub continues: bool,
}

/// What opens a thought in the models that think: a template that ends with one makes the model begin inside.
const THOUGHT_OPENERS: [&str; 8] = [
    "<think>",
    "<thinking>",
    "<thought>",
    "<reasoning>",
    "<seed:think>",
    "[THINK]",
    "<|START_THINKING|>",
    "<|channel|>analysis<|message|>",
];

fn opens_thought(prompt: &str) -> bool {
    let end = prompt.trim_end();
    THOUGHT_OPENERS.iter().any(|opener| end.ends_with(opener))
}

/// Ids of an answer that goes on. As many of the cached ones as spell its beginning are kept: a text can be cut into
/// tokens in more ways than one, and the model's own way is computed already.
fn answer_ids(tokenizer: &Tokenizer, text: &str, cached: &[u32]) -> Vec<u32> {
    let options = EncodeOptions { add_special: false, parse_special: false };
    let mut spelled = vec![];
    // How many cached ids are kept, and the bytes they spell.
    let mut kept = (0, 0);
    for (i, &id) in cached.iter().enumerate() {
        if tokenizer.is_eog(id) {
            break;
        }
        if !tokenizer.token_type(id).is_some_and(TokenType::is_special) {
            let bytes = tokenizer.token_bytes(id).unwrap_or_default();
            let starts = spelled.is_empty() && tokenizer.adds_space_prefix();
            spelled.extend_from_slice(if starts { bytes.strip_prefix(b" ").unwrap_or(bytes) } else { bytes });
        }
        if !text.as_bytes().starts_with(&spelled) {
            break;
        }
        // Encoding the rest must not put a space there that the text does not have.
        let rest = text.get(spelled.len()..);
        if rest.is_some_and(|rest| !tokenizer.adds_space_prefix() || rest.is_empty() || rest.starts_with(' ')) {
            kept = (i + 1, spelled.len());
        }
    }
    let rest = text.get(kept.1..).unwrap_or_default();
    let rest = match rest.strip_prefix(' ') {
        Some(stripped) if kept.0 > 0 && tokenizer.adds_space_prefix() => stripped,
        _ => rest,
    };
    let mut ids = cached.get(..kept.0).unwrap_or_default().to_vec();
    if !rest.is_empty() {
        ids.extend(tokenizer.encode(rest, options));
    }
    ids
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::golden_dir;

    #[test]
    fn thoughts_are_opened_at_the_end_only() {
        assert!(opens_thought("<|im_start|>assistant\n<think>\n"));
        assert!(opens_thought("[THINK]"));
        assert!(!opens_thought("<think>\n\n</think>\n\n"));
        assert!(!opens_thought("what does <think> mean? "));
    }

    #[test]
    fn an_answer_that_goes_on_keeps_the_cached_tokens_that_spell_it() {
        let model = TextModel::from_gguf(&Gguf::open(&golden_dir().join("models/llama.gguf")).unwrap());
        let tokenizer = model.tokenizer().unwrap();
        let options = EncodeOptions { add_special: false, parse_special: false };
        let text = "Gravity pulls things down, é or <|im_end|> not.";
        let decode = |ids: &[u32]| tokenizer.decode(ids, DecodeOptions::default()).unwrap();
        let ids = tokenizer.encode(text, options);
        for n in 0..=ids.len() {
            let answer = answer_ids(tokenizer, text, &ids[..n]);
            assert_eq!(decode(&answer), text);
            // Cut in the middle of a character, its bytes are encoded anew.
            if text.starts_with(&decode(&ids[..n])) {
                assert_eq!(answer[..n], ids[..n]);
            }
        }
        assert_eq!(answer_ids(tokenizer, text, &[]), ids);
        // Letter by letter is not how the text would be cut, but it spells it.
        let letters = ["G", "r", "a"].map(|c| tokenizer.token_id(c).unwrap());
        assert_eq!(answer_ids(tokenizer, text, &letters)[..3], letters);
        // Another text in the cache is of no use.
        let other = tokenizer.encode("Something else", options);
        assert_eq!(answer_ids(tokenizer, text, &other), ids);
    }
}
