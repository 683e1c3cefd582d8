//! The metadata of a model, with the keys that llama.cpp's converter writes.

use super::{SynthArch, SynthQuant, SynthShape, vocab};
use crate::engine::gguf::Value;

/// `expert_gating_func` for experts that are chosen by a sigmoid.
const GATING_SIGMOID: u32 = 2;

/// Turns of a conversation between `<|im_start|>` and `<|im_end|>`.
const CHAT_TEMPLATE: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + \
                             message['content'] + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ \
                             '<|im_start|>assistant\\n' }}{% endif %}";

/// Keys and values in the order of the file.
pub fn metadata(shape: &SynthShape, quant: SynthQuant) -> Vec<(String, Value)> {
    let arch = shape.arch.name();
    let mut entries: Vec<(String, Value)> = Vec::new();
    let mut set = |key: &str, value: Value| entries.push((key.replace("{arch}", arch), value));
    // Every number of a known shape is far below 2^32.
    let number = |n: u64| Value::U32(n as u32);

    set("general.architecture", arch.into());
    set("general.type", "model".into());
    set("general.name", format!("{} (random weights)", shape.name).into());
    set("general.file_type", quant.file_type().into());
    set("{arch}.block_count", number(shape.n_layer));
    set("{arch}.context_length", number(shape.n_ctx_train));
    set("{arch}.embedding_length", number(shape.n_embd));
    set("{arch}.feed_forward_length", number(shape.n_ff));
    set("{arch}.attention.head_count", number(shape.n_head));
    set("{arch}.attention.head_count_kv", number(shape.n_head_kv));
    set("{arch}.attention.layer_norm_rms_epsilon", shape.norm_eps.into());
    if shape.head_dim * shape.n_head != shape.n_embd || shape.arch != SynthArch::Llama {
        set("{arch}.attention.key_length", number(shape.head_dim));
        set("{arch}.attention.value_length", number(shape.head_dim));
    }
    set("{arch}.rope.freq_base", shape.rope_freq_base.into());
    match shape.arch {
        SynthArch::Llama | SynthArch::MinimaxM2 => set("{arch}.rope.dimension_count", number(shape.n_rot)),
        SynthArch::Qwen2 | SynthArch::Qwen3 | SynthArch::Qwen3Moe => {}
    }
    set("{arch}.vocab_size", number(shape.n_vocab));
    if let Some(experts) = shape.experts {
        set("{arch}.expert_count", number(experts.n_expert));
        set("{arch}.expert_used_count", number(experts.n_used));
        if shape.arch != SynthArch::Llama {
            set("{arch}.expert_feed_forward_length", number(experts.n_ff));
        }
    }
    if shape.arch == SynthArch::MinimaxM2 {
        set("{arch}.expert_gating_func", GATING_SIGMOID.into());
    }

    let vocab = vocab::vocab(shape.n_vocab as usize);
    set("tokenizer.ggml.model", "gpt2".into());
    set("tokenizer.ggml.pre", shape.pre.into());
    set("tokenizer.ggml.tokens", vocab.tokens.into());
    set("tokenizer.ggml.token_type", vocab.token_types.into());
    set("tokenizer.ggml.merges", vocab.merges.into());
    set("tokenizer.ggml.bos_token_id", vocab.bos.into());
    set("tokenizer.ggml.eos_token_id", vocab.eos.into());
    set("tokenizer.ggml.padding_token_id", vocab.padding.into());
    set("tokenizer.ggml.add_bos_token", false.into());
    set("tokenizer.chat_template", CHAT_TEMPLATE.into());
    set("general.quantization_version", 2u32.into());
    entries
}
