//! Which run-time compiler a chip has, and in what the two differ.

use super::{hiprtc, nvrtc};
use crate::devices::gpu::chip::Arch;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CompilerKind {
    Nvrtc,
    Hiprtc,
}

impl CompilerKind {
    pub const fn of(arch: Arch) -> CompilerKind {
        match arch {
            Arch::Sm(_) => CompilerKind::Nvrtc,
            Arch::Gfx(_) => CompilerKind::Hiprtc,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            CompilerKind::Nvrtc => "NVRTC",
            CompilerKind::Hiprtc => "hipRTC",
        }
    }

    /// What all its calls begin with.
    pub const fn prefix(self) -> &'static str {
        match self {
            CompilerKind::Nvrtc => "nvrtc",
            CompilerKind::Hiprtc => "hiprtc",
        }
    }

    /// The calls' name for the image.
    pub const fn image_name(self) -> &'static str {
        match self {
            CompilerKind::Nvrtc => "CUBIN",
            CompilerKind::Hiprtc => "Code",
        }
    }

    pub fn flags(self, arch: Arch) -> Vec<String> {
        match self {
            CompilerKind::Nvrtc => nvrtc::flags(arch),
            CompilerKind::Hiprtc => hiprtc::flags(arch),
        }
    }
}
