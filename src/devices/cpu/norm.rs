//! Root-mean-square norm.

use super::bind::{Binder, View};
use super::plan::{Kernel, Plan, Scope};
use super::simd::Simd;
use super::vector::{Vector, multiversion};
use crate::devices::{DeviceError, Slot, WeightRef};

/// `out = x / sqrt(mean(x^2) + eps) * weight` over groups of the weight's length.
pub struct RmsNorm<'a> {
    x: View,
    weight: &'a [f32],
    eps: f32,
    out: View,
}

impl<'a> RmsNorm<'a> {
    pub fn bind(
        binder: &Binder<'a>,
        plan: &mut Plan<'a>,
        x: Slot,
        weight: WeightRef,
        (width, n_groups): (u32, u32),
        eps: f32,
        out: Slot,
    ) -> Result<(), DeviceError> {
        let weight = binder.vector(weight, width as usize)?;
        let row = (width as usize).saturating_mul(n_groups as usize);
        if row == 0 {
            return Err(binder.error("a norm over nothing"));
        }
        let (x, out) = (binder.slot(x, row)?, binder.slot(out, row)?);
        binder.check_apart(out, &[x], &[])?;
        plan.push(Kernel::RmsNorm(RmsNorm { x, weight, eps, out }), Scope::Rows(binder.n_rows), &[x, out]);
        Ok(())
    }

    /// # Safety
    /// Nobody else touches this row of `out`, nobody writes that of `x`; `simd` is available.
    pub unsafe fn row(&self, simd: Simd, row: usize) {
        // SAFETY: the caller's contract; where `x` is another slot than `out` they do not overlap.
        unsafe {
            if self.x != self.out {
                self.out.row_mut(row).copy_from_slice(self.x.row(row));
            }
            for group in self.out.row_mut(row).chunks_exact_mut(self.weight.len()) {
                rms_norm(simd, group, self.weight, self.eps);
            }
        }
    }
}

multiversion! {
    /// One group, in place. `x`, `weight` `[n]`.
    ///
    /// # Safety
    /// `x` and `weight` have one length; `simd` is available.
    unsafe fn rms_norm(x: &mut [f32], weight: &[f32], eps: f32) = rms_norm_body;
}

#[inline(always)]
unsafe fn rms_norm_body<V: Vector>(x: &mut [f32], weight: &[f32], eps: f32) {
    debug_assert_eq!(x.len(), weight.len());
    let n = x.len();
    let whole = n - n % V::LANES;
    // SAFETY: vectors stay below `whole`, which both slices have.
    unsafe {
        let mut sums = [V::splat(0.0); 4];
        let fours = n - n % (4 * V::LANES);
        for i in (0..fours).step_by(4 * V::LANES) {
            for (j, sum) in sums.iter_mut().enumerate() {
                let v = V::load(x.as_ptr().add(i + j * V::LANES));
                *sum = v.mul_add(v, *sum);
            }
        }
        for i in (fours..whole).step_by(V::LANES) {
            let v = V::load(x.as_ptr().add(i));
            sums[0] = v.mul_add(v, sums[0]);
        }
        let mut sum = sums[0].add(sums[1]).add(sums[2].add(sums[3])).sum();
        for v in &x[whole..] {
            sum += v * v;
        }
        let scale = 1.0 / (sum / n as f32 + eps).sqrt();
        let scales = V::splat(scale);
        for i in (0..whole).step_by(V::LANES) {
            let p = x.as_mut_ptr().add(i);
            V::load(p).mul(scales).mul(V::load(weight.as_ptr().add(i))).store(p);
        }
        for i in whole..n {
            x[i] = x[i] * scale * weight[i];
        }
    }
}
