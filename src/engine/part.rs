//! A model is a list of parts.

use std::fmt;

use serde::{Serialize, Serializer};

/// A piece of a model that lies on one device. Order of the variants is not the model's order: see [`Part::all`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Part {
    Embed,
    Attn(u32),
    Ffn(u32),
    Head,
}

impl Part {
    /// The parts of a model with `n_layer` layers, in the order they run.
    pub fn all(n_layer: u32) -> impl Iterator<Item = Part> {
        let layers = (0..n_layer).flat_map(|l| [Part::Attn(l), Part::Ffn(l)]);
        std::iter::once(Part::Embed).chain(layers).chain(std::iter::once(Part::Head))
    }

    pub fn count(n_layer: u32) -> usize {
        2 * n_layer as usize + 2
    }

    /// Its place in [`Part::all`].
    pub fn index(self, n_layer: u32) -> usize {
        match self {
            Part::Embed => 0,
            Part::Attn(l) => 1 + 2 * l as usize,
            Part::Ffn(l) => 2 + 2 * l as usize,
            Part::Head => 1 + 2 * n_layer as usize,
        }
    }

    pub fn layer(self) -> Option<u32> {
        match self {
            Part::Attn(l) | Part::Ffn(l) => Some(l),
            Part::Embed | Part::Head => None,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Embed => f.write_str("embed"),
            Part::Attn(l) => write!(f, "attn {l}"),
            Part::Ffn(l) => write!(f, "ffn {l}"),
            Part::Head => f.write_str("head"),
        }
    }
}

impl Serialize for Part {
    /// As its text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_the_place_in_the_order() {
        for n_layer in [0, 1, 7] {
            let parts: Vec<_> = Part::all(n_layer).collect();
            assert_eq!(parts.len(), Part::count(n_layer));
            assert!(parts.iter().enumerate().all(|(i, p)| p.index(n_layer) == i));
        }
    }
}
