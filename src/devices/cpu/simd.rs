//! Which instruction sets this machine has, found when the program runs.

/// An instruction set that kernels are written for. Every kernel has a portable version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Simd {
    /// What the compiler makes of plain code for the target.
    Portable,
    /// x86-64 with AVX2, FMA and F16C (since 2013).
    Avx2,
    /// x86-64 with AVX-512 F, BW, VL, DQ and VNNI (since 2019).
    Avx512Vnni,
    /// 64-bit ARM with NEON: all of them.
    Neon,
    /// 64-bit ARM with dot products of bytes (most since 2018).
    NeonDot,
}

impl Simd {
    pub const ALL: [Simd; 5] = [Simd::Portable, Simd::Avx2, Simd::Avx512Vnni, Simd::Neon, Simd::NeonDot];

    /// The best one of this machine.
    pub fn detect() -> Simd {
        Simd::ALL.into_iter().rfind(|s| s.is_available()).unwrap_or(Simd::Portable)
    }

    /// All of this machine, the best last.
    pub fn available() -> Vec<Simd> {
        Simd::ALL.into_iter().filter(|s| s.is_available()).collect()
    }

    pub fn is_available(self) -> bool {
        match self {
            Simd::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2 => {
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512Vnni => {
                Simd::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Simd::Avx2 | Simd::Avx512Vnni => false,
            // Kernels see bytes in words, which they expect in this order.
            #[cfg(target_arch = "aarch64")]
            Simd::Neon => cfg!(target_endian = "little") && std::arch::is_aarch64_feature_detected!("neon"),
            #[cfg(target_arch = "aarch64")]
            Simd::NeonDot => Simd::Neon.is_available() && std::arch::is_aarch64_feature_detected!("dotprod"),
            #[cfg(not(target_arch = "aarch64"))]
            Simd::Neon | Simd::NeonDot => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_available() {
        let available = Simd::available();
        assert_eq!(available[0], Simd::Portable);
        assert_eq!(*available.last().unwrap(), Simd::detect());
    }
}
