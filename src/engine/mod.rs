//! What a model is and how it runs. Knows no terminal.

pub mod forecast;
pub mod gguf;
pub mod part;
pub mod placement;
pub mod sampler;
pub mod synth;
pub mod template;
pub mod tokenizer;
