//! Vectors of F32 for the kernels beside matmul: one trait, an implementation for each instruction set.
//!
//! A kernel is written once, generic over [`Vector`] and `#[inline(always)]`; [`multiversion!`] instantiates it inside
//! functions that enable the instructions. The order of additions depends on the instruction set alone.

use super::simd::Simd;

/// `LANES` values of F32.
///
/// # Safety
/// All functions need the instruction set of the implementing type; pointers must be good for `LANES` elements.
pub trait Vector: Copy {
    const LANES: usize;
    unsafe fn load(from: *const f32) -> Self;
    /// From F16.
    unsafe fn load_f16(from: *const u16) -> Self;
    unsafe fn load_i8(from: *const i8) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn splat(x: f32) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    unsafe fn div(self, other: Self) -> Self;
    /// `self * factor + term`; rounded once where the instruction set has it.
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self;
    unsafe fn max(self, other: Self) -> Self;
    /// `bound` where a lane is above it; a NaN stays.
    unsafe fn at_most(self, bound: Self) -> Self;
    /// 0 where `of` is below `bound`, else `self`.
    unsafe fn zero_where_below(self, of: Self, bound: Self) -> Self;
    /// `2^n` for lanes that hold `n + 1.5 * 2^23`, `-126 <= n <= 127`.
    unsafe fn pow2_of_shifted(self) -> Self;
    /// Sum of the lanes, in a fixed order.
    unsafe fn sum(self) -> f32;
    unsafe fn max_lane(self) -> f32;
    /// `to[j * to_stride + i] = from[i * from_stride + j]` for `i`, `j` below 8.
    unsafe fn transpose8(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize);
}

/// `e^x` with a relative error below 2e-7; 0 below -87.33, `e^88` above 88, NaN stays NaN.
///
/// # Safety
/// As [`Vector`].
#[inline(always)]
pub unsafe fn exp<V: Vector>(x: V) -> V {
    const SHIFT: f32 = 1.5 * (1 << 23) as f32;
    // ln 2 in two parts: the first times an exponent is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    const LOWEST: f32 = -87.33;
    // Minimax polynomial for (e^r - 1 - r) / r^2, |r| <= ln 2 / 2. Source: Moshier, Cephes library.
    const C: [f32; 6] = [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
    // SAFETY: the caller has the instruction set.
    unsafe {
        let clamped = x.at_most(V::splat(88.0));
        let shifted = clamped.mul_add(V::splat(std::f32::consts::LOG2_E), V::splat(SHIFT));
        let n = shifted.sub(V::splat(SHIFT));
        let r = n.mul_add(V::splat(-LN2_HIGH), clamped);
        let r = n.mul_add(V::splat(-LN2_LOW), r);
        let mut p = V::splat(C[0]);
        for c in &C[1..] {
            p = p.mul_add(r, V::splat(*c));
        }
        let e = p.mul_add(r.mul(r), r).add(V::splat(1.0));
        e.mul(shifted.pow2_of_shifted()).zero_where_below(x, V::splat(LOWEST))
    }
}

/// Portable: the compiler makes of it what the target has.
#[derive(Clone, Copy)]
pub struct Lanes8([f32; 8]);

impl Lanes8 {
    #[inline(always)]
    fn each(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Lanes8(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl Vector for Lanes8 {
    const LANES: usize = 8;
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's pointer is good for 8 elements.
        Lanes8(unsafe { from.cast::<[f32; 8]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Self {
        // SAFETY: as above.
        let bits = unsafe { from.cast::<[u16; 8]>().read_unaligned() };
        Lanes8(bits.map(|b| half::f16::from_bits(b).to_f32_const()))
    }
    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        // SAFETY: as above.
        Lanes8(unsafe { from.cast::<[i8; 8]>().read_unaligned() }.map(f32::from))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as above.
        unsafe { to.cast::<[f32; 8]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Lanes8([x; 8])
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.each(other, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        self.each(other, |a, b| a - b)
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        self.each(other, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        self.each(other, |a, b| a / b)
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
        Lanes8(std::array::from_fn(|i| self.0[i] * factor.0[i] + term.0[i]))
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        self.each(other, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    unsafe fn at_most(self, bound: Self) -> Self {
        self.each(bound, |a, b| if b < a { b } else { a })
    }
    #[inline(always)]
    unsafe fn zero_where_below(self, of: Self, bound: Self) -> Self {
        Lanes8(std::array::from_fn(|i| if of.0[i] < bound.0[i] { 0.0 } else { self.0[i] }))
    }
    #[inline(always)]
    unsafe fn pow2_of_shifted(self) -> Self {
        Lanes8(self.0.map(|x| f32::from_bits(x.to_bits().wrapping_add(127) << 23)))
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let x = self.0;
        ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]))
    }
    #[inline(always)]
    unsafe fn max_lane(self) -> f32 {
        self.0.into_iter().fold(f32::NEG_INFINITY, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    unsafe fn transpose8(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        for i in 0..8 {
            for j in 0..8 {
                // SAFETY: the caller's blocks of 8 rows of 8 elements.
                unsafe { *to.add(j * to_stride + i) = *from.add(i * from_stride + j) };
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub use x86::{Lanes8Avx2, Lanes16Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Vector;
    use std::arch::x86_64::*;

    /// AVX2, FMA and F16C.
    #[derive(Clone, Copy)]
    pub struct Lanes8Avx2(__m256);

    // SAFETY (all functions): the trait's contract gives the instructions and the memory.
    #[allow(clippy::undocumented_unsafe_blocks)]
    impl Vector for Lanes8Avx2 {
        const LANES: usize = 8;
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { Self(_mm256_loadu_ps(from)) }
        }
        #[inline(always)]
        unsafe fn load_f16(from: *const u16) -> Self {
            unsafe { Self(_mm256_cvtph_ps(_mm_loadu_si128(from.cast()))) }
        }
        #[inline(always)]
        unsafe fn load_i8(from: *const i8) -> Self {
            unsafe { Self(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast())))) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm256_storeu_ps(to, self.0) }
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            unsafe { Self(_mm256_set1_ps(x)) }
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            unsafe { Self(_mm256_add_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            unsafe { Self(_mm256_sub_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn mul(self, other: Self) -> Self {
            unsafe { Self(_mm256_mul_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn div(self, other: Self) -> Self {
            unsafe { Self(_mm256_div_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
            unsafe { Self(_mm256_fmadd_ps(self.0, factor.0, term.0)) }
        }
        #[inline(always)]
        unsafe fn max(self, other: Self) -> Self {
            unsafe { Self(_mm256_max_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn at_most(self, bound: Self) -> Self {
            // The second operand is the result where one is NaN.
            unsafe { Self(_mm256_min_ps(bound.0, self.0)) }
        }
        #[inline(always)]
        unsafe fn zero_where_below(self, of: Self, bound: Self) -> Self {
            unsafe { Self(_mm256_andnot_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(of.0, bound.0), self.0)) }
        }
        #[inline(always)]
        unsafe fn pow2_of_shifted(self) -> Self {
            unsafe {
                let biased = _mm256_add_epi32(_mm256_castps_si256(self.0), _mm256_set1_epi32(127));
                Self(_mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased)))
            }
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            unsafe {
                let four = _mm_add_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
                let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
                _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
            }
        }
        #[inline(always)]
        unsafe fn max_lane(self) -> f32 {
            unsafe {
                let four = _mm_max_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
                let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
                _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
            }
        }
        #[inline(always)]
        unsafe fn transpose8(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
            unsafe {
                // Halves of rows i and i + 4 side by side; then 4 x 4 transposes in each half.
                let pair = |i: usize, half: usize| {
                    let low = _mm_loadu_ps(from.add(i * from_stride + half * 4));
                    let high = _mm_loadu_ps(from.add((i + 4) * from_stride + half * 4));
                    _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high)
                };
                for half in 0..2 {
                    let (a, b, c, d) = (pair(0, half), pair(1, half), pair(2, half), pair(3, half));
                    let (ab_low, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                    let (cd_low, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
                    let to = to.add(half * 4 * to_stride);
                    _mm256_storeu_ps(to, _mm256_shuffle_ps::<0x44>(ab_low, cd_low));
                    _mm256_storeu_ps(to.add(to_stride), _mm256_shuffle_ps::<0xee>(ab_low, cd_low));
                    _mm256_storeu_ps(to.add(2 * to_stride), _mm256_shuffle_ps::<0x44>(ab_high, cd_high));
                    _mm256_storeu_ps(to.add(3 * to_stride), _mm256_shuffle_ps::<0xee>(ab_high, cd_high));
                }
            }
        }
    }

    /// AVX-512 F, and what [`Lanes8Avx2`] needs.
    #[derive(Clone, Copy)]
    pub struct Lanes16Avx512(__m512);

    // SAFETY (all functions): the trait's contract gives the instructions and the memory.
    #[allow(clippy::undocumented_unsafe_blocks)]
    impl Vector for Lanes16Avx512 {
        const LANES: usize = 16;
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { Self(_mm512_loadu_ps(from)) }
        }
        #[inline(always)]
        unsafe fn load_f16(from: *const u16) -> Self {
            unsafe { Self(_mm512_cvtph_ps(_mm256_loadu_si256(from.cast()))) }
        }
        #[inline(always)]
        unsafe fn load_i8(from: *const i8) -> Self {
            unsafe { Self(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast())))) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm512_storeu_ps(to, self.0) }
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            unsafe { Self(_mm512_set1_ps(x)) }
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            unsafe { Self(_mm512_add_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            unsafe { Self(_mm512_sub_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn mul(self, other: Self) -> Self {
            unsafe { Self(_mm512_mul_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn div(self, other: Self) -> Self {
            unsafe { Self(_mm512_div_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
            unsafe { Self(_mm512_fmadd_ps(self.0, factor.0, term.0)) }
        }
        #[inline(always)]
        unsafe fn max(self, other: Self) -> Self {
            unsafe { Self(_mm512_max_ps(self.0, other.0)) }
        }
        #[inline(always)]
        unsafe fn at_most(self, bound: Self) -> Self {
            // The second operand is the result where one is NaN.
            unsafe { Self(_mm512_min_ps(bound.0, self.0)) }
        }
        #[inline(always)]
        unsafe fn zero_where_below(self, of: Self, bound: Self) -> Self {
            unsafe {
                let keep = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(of.0, bound.0);
                Self(_mm512_maskz_mov_ps(keep, self.0))
            }
        }
        #[inline(always)]
        unsafe fn pow2_of_shifted(self) -> Self {
            unsafe {
                let biased = _mm512_add_epi32(_mm512_castps_si512(self.0), _mm512_set1_epi32(127));
                Self(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased)))
            }
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            unsafe { _mm512_reduce_add_ps(self.0) }
        }
        #[inline(always)]
        unsafe fn max_lane(self) -> f32 {
            unsafe { _mm512_reduce_max_ps(self.0) }
        }
        #[inline(always)]
        unsafe fn transpose8(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
            unsafe { Lanes8Avx2::transpose8(from, from_stride, to, to_stride) }
        }
    }
}

#[cfg(target_arch = "aarch64")]
pub use arm::Lanes8Neon;

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::Vector;
    use crate::devices::cpu::arm_asm;
    use std::arch::aarch64::*;

    /// Two registers of NEON.
    #[derive(Clone, Copy)]
    pub struct Lanes8Neon(float32x4_t, float32x4_t);

    // SAFETY (all functions): the trait's contract gives the instructions and the memory.
    #[allow(clippy::undocumented_unsafe_blocks)]
    impl Vector for Lanes8Neon {
        const LANES: usize = 8;
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            unsafe { Self(vld1q_f32(from), vld1q_f32(from.add(4))) }
        }
        #[inline(always)]
        unsafe fn load_f16(from: *const u16) -> Self {
            unsafe { Self(arm_asm::load_f16(from), arm_asm::load_f16(from.add(4))) }
        }
        #[inline(always)]
        unsafe fn load_i8(from: *const i8) -> Self {
            unsafe {
                let wide = vmovl_s8(vld1_s8(from));
                Self(vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), vcvtq_f32_s32(vmovl_high_s16(wide)))
            }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe {
                vst1q_f32(to, self.0);
                vst1q_f32(to.add(4), self.1);
            }
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            unsafe { Self(vdupq_n_f32(x), vdupq_n_f32(x)) }
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            unsafe { Self(vaddq_f32(self.0, other.0), vaddq_f32(self.1, other.1)) }
        }
        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            unsafe { Self(vsubq_f32(self.0, other.0), vsubq_f32(self.1, other.1)) }
        }
        #[inline(always)]
        unsafe fn mul(self, other: Self) -> Self {
            unsafe { Self(vmulq_f32(self.0, other.0), vmulq_f32(self.1, other.1)) }
        }
        #[inline(always)]
        unsafe fn div(self, other: Self) -> Self {
            unsafe { Self(vdivq_f32(self.0, other.0), vdivq_f32(self.1, other.1)) }
        }
        #[inline(always)]
        unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
            unsafe { Self(vfmaq_f32(term.0, self.0, factor.0), vfmaq_f32(term.1, self.1, factor.1)) }
        }
        #[inline(always)]
        unsafe fn max(self, other: Self) -> Self {
            // The number where one is NaN.
            unsafe { Self(vmaxnmq_f32(self.0, other.0), vmaxnmq_f32(self.1, other.1)) }
        }
        #[inline(always)]
        unsafe fn at_most(self, bound: Self) -> Self {
            // NaN where one is NaN.
            unsafe { Self(vminq_f32(self.0, bound.0), vminq_f32(self.1, bound.1)) }
        }
        #[inline(always)]
        unsafe fn zero_where_below(self, of: Self, bound: Self) -> Self {
            unsafe {
                let kept = |x: float32x4_t, below: uint32x4_t| {
                    vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(x), below))
                };
                Self(kept(self.0, vcltq_f32(of.0, bound.0)), kept(self.1, vcltq_f32(of.1, bound.1)))
            }
        }
        #[inline(always)]
        unsafe fn pow2_of_shifted(self) -> Self {
            unsafe {
                let power = |x: float32x4_t| {
                    let biased = vaddq_s32(vreinterpretq_s32_f32(x), vdupq_n_s32(127));
                    vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased))
                };
                Self(power(self.0), power(self.1))
            }
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            unsafe {
                let four = vaddq_f32(self.0, self.1);
                let two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
                vget_lane_f32::<0>(two) + vget_lane_f32::<1>(two)
            }
        }
        #[inline(always)]
        unsafe fn max_lane(self) -> f32 {
            unsafe { vmaxnmvq_f32(vmaxnmq_f32(self.0, self.1)) }
        }
        #[inline(always)]
        unsafe fn transpose8(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
            unsafe {
                // 4 x 4 transposes: pairs of lanes, then pairs of pairs.
                for (row, column) in [(0, 0), (0, 4), (4, 0), (4, 4)] {
                    let load = |i: usize| vld1q_f32(from.add((row + i) * from_stride + column));
                    let store = |j: usize, x: float64x2_t| {
                        vst1q_f32(to.add((column + j) * to_stride + row), vreinterpretq_f32_f64(x));
                    };
                    let (a, b, c, d) = (load(0), load(1), load(2), load(3));
                    let even = [vreinterpretq_f64_f32(vtrn1q_f32(a, b)), vreinterpretq_f64_f32(vtrn1q_f32(c, d))];
                    let odd = [vreinterpretq_f64_f32(vtrn2q_f32(a, b)), vreinterpretq_f64_f32(vtrn2q_f32(c, d))];
                    store(0, vtrn1q_f64(even[0], even[1]));
                    store(1, vtrn1q_f64(odd[0], odd[1]));
                    store(2, vtrn2q_f64(even[0], even[1]));
                    store(3, vtrn2q_f64(odd[0], odd[1]));
                }
            }
        }
    }
}

/// `multiversion! { unsafe fn name(args) = body; }` makes `name(simd, args)` of a `body::<V: Vector>(args)`.
macro_rules! multiversion {
    ($($(#[$doc:meta])* $vis:vis unsafe fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident;)*) => {$(
        $(#[$doc])*
        $vis unsafe fn $name(simd: $crate::devices::cpu::simd::Simd, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn avx2($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller's contract is that of the body.
                unsafe { $body::<$crate::devices::cpu::vector::Lanes8Avx2>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
            unsafe fn avx512($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: as above.
                unsafe { $body::<$crate::devices::cpu::vector::Lanes16Avx512>($($arg),*) }
            }
            // SAFETY: the caller's contract; the instructions are there because `Simd` is made by detection.
            unsafe {
                match $crate::devices::cpu::vector::Width::of(simd) {
                    #[cfg(target_arch = "x86_64")]
                    $crate::devices::cpu::vector::Width::Avx512 => avx512($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::devices::cpu::vector::Width::Avx2 => avx2($($arg),*),
                    // Part of the target: no function has to enable it.
                    #[cfg(target_arch = "aarch64")]
                    $crate::devices::cpu::vector::Width::Neon => {
                        $body::<$crate::devices::cpu::vector::Lanes8Neon>($($arg),*)
                    }
                    $crate::devices::cpu::vector::Width::Portable => {
                        $body::<$crate::devices::cpu::vector::Lanes8>($($arg),*)
                    }
                }
            }
        }
    )*};
}
pub(super) use multiversion;

/// The implementation of [`Vector`] that a machine uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Width {
    pub fn of(simd: Simd) -> Width {
        match simd {
            Simd::Portable => Width::Portable,
            #[cfg(target_arch = "x86_64")]
            Simd::Avx2 => Width::Avx2,
            #[cfg(target_arch = "x86_64")]
            Simd::Avx512Vnni => Width::Avx512,
            #[cfg(not(target_arch = "x86_64"))]
            Simd::Avx2 | Simd::Avx512Vnni => Width::Portable,
            #[cfg(target_arch = "aarch64")]
            Simd::Neon | Simd::NeonDot => Width::Neon,
            #[cfg(not(target_arch = "aarch64"))]
            Simd::Neon | Simd::NeonDot => Width::Portable,
        }
    }
}

multiversion! {
    /// `x = e^x` for each element.
    ///
    /// # Safety
    /// `simd` is available on this machine.
    #[cfg(test)]
    unsafe fn exp_slice(x: &mut [f32]) = exp_slice_body;
}

#[cfg(test)]
#[inline(always)]
unsafe fn exp_slice_body<V: Vector>(x: &mut [f32]) {
    // SAFETY: the caller has the instructions.
    unsafe { map_slice::<V>(x, ExpAbove(0.0)) }
}

/// A function of one vector. Not a closure: those are not always inlined, and outside a function that enables the
/// instructions each of them would be a call.
pub trait Map {
    /// # Safety
    /// As [`Vector`].
    unsafe fn map<V: Vector>(&self, x: V) -> V;
}

/// `e^(x - self)`
pub struct ExpAbove(pub f32);

impl Map for ExpAbove {
    #[inline(always)]
    unsafe fn map<V: Vector>(&self, x: V) -> V {
        // SAFETY: the caller has the instructions.
        unsafe { exp(x.sub(V::splat(self.0))) }
    }
}

/// `1 / (1 + e^-x)`
pub struct Sigmoid;

impl Map for Sigmoid {
    #[inline(always)]
    unsafe fn map<V: Vector>(&self, x: V) -> V {
        // SAFETY: the caller has the instructions.
        unsafe { V::splat(1.0).div(V::splat(1.0).add(exp(V::splat(0.0).sub(x)))) }
    }
}

/// `x = f(x)` for each element; the last few go through a padded vector.
///
/// # Safety
/// As [`Vector`].
#[inline(always)]
pub unsafe fn map_slice<V: Vector>(x: &mut [f32], f: impl Map) {
    let whole = x.len() - x.len() % V::LANES;
    // SAFETY: `i + LANES <= len`; the tail's buffer has room for the widest vector.
    unsafe {
        for i in (0..whole).step_by(V::LANES) {
            let p = x.as_mut_ptr().add(i);
            f.map(V::load(p)).store(p);
        }
        let tail = &mut x[whole..];
        let mut padded = [0.0f32; 16];
        padded[..tail.len()].copy_from_slice(tail);
        f.map(V::load(padded.as_ptr())).store(padded.as_mut_ptr());
        tail.copy_from_slice(&padded[..tail.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest relative error of the exponential.
    const EXP_ERROR: f64 = 2e-7;

    #[test]
    fn the_exponential_is_exact_enough_everywhere() {
        let n = 400_000;
        let xs: Vec<f32> = (0..n).map(|i| -87.3 + 175.3 * i as f32 / n as f32).chain([1e-20, -1e-20, 88.0]).collect();
        for simd in Simd::available() {
            let mut es = xs.clone();
            // SAFETY: available.
            unsafe { exp_slice(simd, &mut es) };
            for (x, e) in xs.iter().zip(&es) {
                let exact = f64::from(*x).exp();
                let error = (f64::from(*e) - exact).abs() / exact;
                assert!(error < EXP_ERROR, "{simd:?}: e^{x} = {e}, off by {error:e}");
            }
        }
    }

    #[test]
    fn the_exponential_of_odd_numbers() {
        for simd in Simd::available() {
            let mut x = [0.0, -0.0, f32::NEG_INFINITY, -1000.0, -87.34, f32::INFINITY, 1000.0, f32::NAN, 89.0];
            // SAFETY: available.
            unsafe { exp_slice(simd, &mut x) };
            assert_eq!(&x[..5], [1.0, 1.0, 0.0, 0.0, 0.0], "{simd:?}");
            for i in [5, 6, 8] {
                assert!((f64::from(x[i]) / 88f64.exp() - 1.0).abs() < EXP_ERROR, "{simd:?}: {}", x[i]);
            }
            assert!(x[7].is_nan(), "{simd:?}");
        }
    }

    #[test]
    fn a_transpose_turns_rows_into_columns() {
        fn check<V: Vector>() {
            let from: Vec<f32> = (0..8 * 11).map(|i| i as f32).collect();
            let mut to = vec![0.0; 8 * 9];
            // SAFETY: 8 rows of 8 with these strides; the caller looked for the instructions.
            unsafe { V::transpose8(from.as_ptr(), 11, to.as_mut_ptr(), 9) };
            for i in 0..8 {
                for j in 0..8 {
                    assert_eq!(to[j * 9 + i], from[i * 11 + j]);
                }
            }
        }
        check::<Lanes8>();
        #[cfg(target_arch = "x86_64")]
        if Simd::Avx2.is_available() {
            check::<Lanes8Avx2>();
        }
        #[cfg(target_arch = "aarch64")]
        if Simd::Neon.is_available() {
            check::<Lanes8Neon>();
        }
    }
}
