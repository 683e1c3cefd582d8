//! The portable kernels, compiled for instruction sets of x86-64.

use super::ActivationFormat;
use super::format::{Format, ROWS};
use super::portable::{self, Float};

macro_rules! compiled_for {
    ($features:literal, $prepare:ident, $float:ident, $exact:ident) => {
        /// # Safety
        /// The machine has these features.
        #[target_feature(enable = $features)]
        pub unsafe fn $prepare(format: ActivationFormat, x: &[f32], out: &mut [u8]) {
            super::input::prepare(format, x, out);
        }

        /// # Safety
        /// See [`portable::float`]; the machine has these features.
        #[target_feature(enable = $features)]
        pub unsafe fn $float<F: Float>(packed: &[u8], n_in: usize, rows: &[*const u8], acc: &mut [[f32; ROWS]]) {
            // SAFETY: the caller's promise.
            unsafe { portable::float::<F, true>(packed, n_in, rows, acc) }
        }

        /// # Safety
        /// See [`portable::exact`]; the machine has these features.
        #[target_feature(enable = $features)]
        pub unsafe fn $exact<F: Format>(packed: &[u8], n_blocks: usize, rows: &[*const u8], acc: &mut [[f32; ROWS]]) {
            // SAFETY: the caller's promise.
            unsafe { portable::exact::<F, true>(packed, n_blocks, rows, acc) }
        }
    };
}

compiled_for!("avx2,fma,f16c", prepare_avx2, float_avx2, exact_avx2);
compiled_for!(
    "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni",
    prepare_avx512,
    float_avx512,
    exact_avx512
);
