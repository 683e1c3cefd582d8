//! What can hold and compute. Knows no layer, model, token or file.

pub mod cpu;
pub mod quant;
