//! What a model is and how it runs. Knows no terminal.

pub mod arch;
pub mod budget;
pub mod change;
pub mod exec;
pub mod forecast;
pub mod generation;
pub mod gguf;
pub mod inventory;
pub mod kv;
pub mod load;
pub mod logits;
pub mod measured;
pub mod model;
pub mod part;
pub mod placement;
pub mod preview;
pub mod protocol;
pub mod publish;
pub mod quant_name;
pub mod recovery;
pub mod resident;
pub mod run;
pub mod sampler;
pub mod session;
pub mod stage;
pub mod stop_text;
pub mod synth;
pub mod template;
pub mod text;
pub mod tokenizer;
pub mod worker;

/// The golden data that tests compare with: `$LAYERCAKE_GOLDEN`, else `../shared/golden` beside the package.
#[cfg(test)]
pub fn golden_dir() -> std::path::PathBuf {
    match std::env::var_os("LAYERCAKE_GOLDEN") {
        Some(path) => path.into(),
        None => std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/golden"),
    }
}
