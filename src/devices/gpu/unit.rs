//! What is compiled: a kernel file with constants.

use std::fmt;

use super::chip::Chip;

/// The kernel files, one an op family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Source {
    Embed,
    Rows,
    Norm,
    Rope,
    Kv,
    Attention,
    Matmul,
    Route,
    Experts,
    Combine,
}

const PRELUDE: &str = include_str!("../../../kernels/prelude.cuh");

impl Source {
    pub const ALL: [Source; 10] = [
        Source::Embed,
        Source::Rows,
        Source::Norm,
        Source::Rope,
        Source::Kv,
        Source::Attention,
        Source::Matmul,
        Source::Route,
        Source::Experts,
        Source::Combine,
    ];

    /// Its file's name in `kernels/`.
    pub const fn file_name(self) -> &'static str {
        match self {
            Source::Embed => "embed.cu",
            Source::Rows => "rows.cu",
            Source::Norm => "norm.cu",
            Source::Rope => "rope.cu",
            Source::Kv => "kv.cu",
            Source::Attention => "attention.cu",
            Source::Matmul => "matmul.cu",
            Source::Route => "route.cu",
            Source::Experts => "experts.cu",
            Source::Combine => "combine.cu",
        }
    }

    /// What stands before it, and itself, in order, with file names.
    pub fn files(self) -> Vec<(&'static str, &'static str)> {
        const QUANT: (&str, &str) = ("quant.cuh", include_str!("../../../kernels/quant.cuh"));
        const DOT: (&str, &str) = ("dot.cuh", include_str!("../../../kernels/dot.cuh"));
        let text = match self {
            Source::Embed => include_str!("../../../kernels/embed.cu"),
            Source::Rows => include_str!("../../../kernels/rows.cu"),
            Source::Norm => include_str!("../../../kernels/norm.cu"),
            Source::Rope => include_str!("../../../kernels/rope.cu"),
            Source::Kv => include_str!("../../../kernels/kv.cu"),
            Source::Attention => include_str!("../../../kernels/attention.cu"),
            Source::Matmul => include_str!("../../../kernels/matmul.cu"),
            Source::Route => include_str!("../../../kernels/route.cu"),
            Source::Experts => include_str!("../../../kernels/experts.cu"),
            Source::Combine => include_str!("../../../kernels/combine.cu"),
        };
        let mut files = vec![("prelude.cuh", PRELUDE)];
        match self {
            Source::Embed => files.push(QUANT),
            Source::Matmul | Source::Experts => files.extend([QUANT, DOT]),
            Source::Rows
            | Source::Norm
            | Source::Rope
            | Source::Kv
            | Source::Attention
            | Source::Route
            | Source::Combine => {}
        }
        files.push((self.file_name(), text));
        files
    }

    /// The whole text for a compiler, with `#line` marks so that its messages name the right file.
    pub fn text(self) -> String {
        self.files().into_iter().map(|(name, text)| format!("#line 1 \"{name}\"\n{text}\n")).collect()
    }
}

/// A kernel file with its constants: what a compiler makes one module of.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Unit {
    pub source: Source,
    /// `-D` options besides those that the chip gives, in the order of their names.
    pub defines: Vec<(&'static str, i64)>,
}

impl Unit {
    pub fn new(source: Source, defines: &[(&'static str, i64)]) -> Unit {
        let mut defines = defines.to_vec();
        defines.sort();
        Unit { source, defines }
    }

    /// All `-D` options for a chip.
    pub fn options(&self, chip: &Chip) -> Vec<String> {
        let of_chip = match chip.arch {
            super::chip::Arch::Sm(_) => None,
            super::chip::Arch::Gfx(number) => Some(format!("-DLC_GFX={number:#x}")),
        };
        let wave = format!("-DLC_WAVE={}", chip.wave_size);
        let own = self.defines.iter().map(|(name, value)| format!("-D{name}={value}"));
        std::iter::once(wave).chain(of_chip).chain(own).collect()
    }
}

impl fmt::Display for Unit {
    /// "attention.cu HEAD_DIM_K=64 HEAD_DIM_V=64"
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.source.file_name())?;
        self.defines.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}
