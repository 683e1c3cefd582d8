//! The tensors of a model, named and shaped as llama.cpp's converter does.

use super::quant::Role;
use super::{Fill, SynthArch, SynthQuant, SynthShape, SynthTensor};
use crate::devices::quant::DType;
use crate::engine::gguf::Shape;

/// All tensors of a model, in the order of the file.
pub fn tensors(shape: &SynthShape, quant: SynthQuant) -> Vec<SynthTensor> {
    let mut list = List { shape, quant, tensors: Vec::new() };
    let n_embd = shape.n_embd;
    list.matrix("token_embd.weight", Role::TokenEmbd, 0, &[n_embd, shape.n_vocab]);
    list.vector("output_norm.weight", Fill::Norm, n_embd);
    if !shape.tied_head {
        list.matrix("output.weight", Role::Output, 0, &[n_embd, shape.n_vocab]);
    }
    for layer in 0..shape.n_layer {
        list.attention(layer);
        list.feed_forward(layer);
    }
    if let Some(scaling) = shape.rope_scaling {
        let fill = Fill::RopeFreqs { scaling, freq_base: shape.rope_freq_base };
        list.vector("rope_freqs.weight", fill, shape.n_rot / 2);
    }
    list.tensors
}

struct List<'a> {
    shape: &'a SynthShape,
    quant: SynthQuant,
    tensors: Vec<SynthTensor>,
}

impl List<'_> {
    fn add(&mut self, name: &str, dims: &[u64], dtype: DType, fill: Fill) {
        let shape = Shape::new(dims).expect("the dimensions of a known shape");
        self.tensors.push(SynthTensor { name: name.to_string(), shape, dtype, fill });
    }

    fn matrix(&mut self, name: &str, role: Role, layer: u64, dims: &[u64]) {
        self.add(name, dims, self.quant.dtype(self.shape, role, layer, dims[0]), Fill::Weight);
    }

    fn vector(&mut self, name: &str, fill: Fill, n: u64) {
        self.add(name, &[n], DType::F32, fill);
    }

    fn attention(&mut self, layer: u64) {
        let SynthShape { arch, n_embd, n_head, n_head_kv, head_dim, .. } = *self.shape;
        let (n_q, n_kv) = (n_head * head_dim, n_head_kv * head_dim);
        let name = |part: &str| format!("blk.{layer}.{part}");
        self.vector(&name("attn_norm.weight"), Fill::Norm, n_embd);
        self.matrix(&name("attn_q.weight"), Role::AttnQ, layer, &[n_embd, n_q]);
        self.matrix(&name("attn_k.weight"), Role::AttnK, layer, &[n_embd, n_kv]);
        self.matrix(&name("attn_v.weight"), Role::AttnV, layer, &[n_embd, n_kv]);
        self.matrix(&name("attn_output.weight"), Role::AttnOutput, layer, &[n_q, n_embd]);
        match arch {
            SynthArch::Llama => {}
            SynthArch::Qwen2 => {
                self.vector(&name("attn_q.bias"), Fill::Bias, n_q);
                self.vector(&name("attn_k.bias"), Fill::Bias, n_kv);
                self.vector(&name("attn_v.bias"), Fill::Bias, n_kv);
            }
            SynthArch::Qwen3 | SynthArch::Qwen3Moe => {
                self.vector(&name("attn_q_norm.weight"), Fill::Norm, head_dim);
                self.vector(&name("attn_k_norm.weight"), Fill::Norm, head_dim);
            }
            SynthArch::MinimaxM2 => {
                self.vector(&name("attn_q_norm.weight"), Fill::Norm, n_q);
                self.vector(&name("attn_k_norm.weight"), Fill::Norm, n_kv);
            }
        }
    }

    fn feed_forward(&mut self, layer: u64) {
        let SynthShape { arch, n_embd, n_ff, experts, .. } = *self.shape;
        let name = |part: &str| format!("blk.{layer}.{part}");
        self.vector(&name("ffn_norm.weight"), Fill::Norm, n_embd);
        let Some(experts) = experts else {
            self.matrix(&name("ffn_gate.weight"), Role::FfnGate, layer, &[n_embd, n_ff]);
            self.matrix(&name("ffn_up.weight"), Role::FfnUp, layer, &[n_embd, n_ff]);
            self.matrix(&name("ffn_down.weight"), Role::FfnDown, layer, &[n_ff, n_embd]);
            return;
        };
        let (n_expert, n_ff) = (experts.n_expert, experts.n_ff);
        // The router is never quantised: a small error there chooses other experts.
        self.add(&name("ffn_gate_inp.weight"), &[n_embd, n_expert], DType::F32, Fill::Weight);
        self.matrix(&name("ffn_gate_exps.weight"), Role::FfnGate, layer, &[n_embd, n_ff, n_expert]);
        self.matrix(&name("ffn_up_exps.weight"), Role::FfnUp, layer, &[n_embd, n_ff, n_expert]);
        self.matrix(&name("ffn_down_exps.weight"), Role::FfnDown, layer, &[n_ff, n_embd, n_expert]);
        if arch == SynthArch::MinimaxM2 {
            self.vector(&name("exp_probs_b.bias"), Fill::Bias, n_expert);
        }
    }
}
