//! Gated activations.

use super::bind::{Binder, View};
use super::plan::{Kernel, Plan, Scope};
use super::simd::Simd;
use super::vector::{Vector, exp, multiversion};
use crate::devices::op::Activation;
use crate::devices::{DeviceError, Slot};

/// `out = act(gate) * up`
pub struct GatedActivation {
    gate: View,
    up: View,
    activation: Activation,
    out: View,
}

impl GatedActivation {
    pub fn bind<'a>(
        binder: &Binder<'a>,
        plan: &mut Plan<'a>,
        (gate, up): (Slot, Slot),
        activation: Activation,
        width: u32,
        out: Slot,
    ) -> Result<(), DeviceError> {
        let slot = |slot| binder.slot(slot, width as usize);
        let (gate, up, out) = (slot(gate)?, slot(up)?, slot(out)?);
        if gate == up {
            return Err(binder.error("an activation whose gate is its input"));
        }
        binder.check_apart(out, &[gate, up], &[])?;
        let op = GatedActivation { gate, up, activation, out };
        plan.push(Kernel::GatedActivation(op), Scope::Rows(binder.n_rows), &[gate, up, out]);
        Ok(())
    }

    /// # Safety
    /// Nobody else touches this row of `out`, nobody writes those of `gate` and `up`; `simd` is available.
    pub unsafe fn row(&self, simd: Simd, row: usize) {
        // SAFETY: the caller's contract; slots that are not the same do not overlap.
        unsafe {
            let Activation::Silu = self.activation;
            let out = self.out.row_mut(row);
            if self.out == self.up {
                return silu_gate(simd, self.gate.row(row), out);
            }
            if self.out != self.gate {
                out.copy_from_slice(self.gate.row(row));
            }
            silu_scale(simd, out, self.up.row(row));
        }
    }
}

multiversion! {
    /// `gate = silu(gate) * up`, both `[n]`.
    ///
    /// # Safety
    /// One length; `simd` is available.
    unsafe fn silu_scale(gate: &mut [f32], up: &[f32]) = silu_scale_body;

    /// `up = silu(gate) * up`, both `[n]`.
    ///
    /// # Safety
    /// One length; `simd` is available.
    unsafe fn silu_gate(gate: &[f32], up: &mut [f32]) = silu_gate_body;
}

#[inline(always)]
unsafe fn silu_scale_body<V: Vector>(gate: &mut [f32], up: &[f32]) {
    let (n, gate) = (gate.len(), gate.as_mut_ptr());
    // SAFETY: the caller's contract.
    unsafe { silu_product::<V>(gate, up.as_ptr(), gate, n) }
}

#[inline(always)]
unsafe fn silu_gate_body<V: Vector>(gate: &[f32], up: &mut [f32]) {
    let (n, up) = (up.len(), up.as_mut_ptr());
    // SAFETY: the caller's contract.
    unsafe { silu_product::<V>(gate.as_ptr(), up, up, n) }
}

/// # Safety
/// As [`Vector`].
#[inline(always)]
unsafe fn silu<V: Vector>(x: V) -> V {
    // SAFETY: the caller has the instructions.
    unsafe { x.div(V::splat(1.0).add(exp(V::splat(0.0).sub(x)))) }
}

/// # Safety
/// All three are good for `n` elements; `out` may be one of the others.
#[inline(always)]
unsafe fn silu_product<V: Vector>(gate: *const f32, up: *const f32, out: *mut f32, n: usize) {
    // SAFETY: vectors stay below `n`; the tail goes through padded copies.
    unsafe {
        let whole = n - n % V::LANES;
        for i in (0..whole).step_by(V::LANES) {
            silu(V::load(gate.add(i))).mul(V::load(up.add(i))).store(out.add(i));
        }
        if whole < n {
            let (mut g, mut u) = ([0.0f32; 16], [0.0f32; 16]);
            std::ptr::copy_nonoverlapping(gate.add(whole), g.as_mut_ptr(), n - whole);
            std::ptr::copy_nonoverlapping(up.add(whole), u.as_mut_ptr(), n - whole);
            silu(V::load(g.as_ptr())).mul(V::load(u.as_ptr())).store(g.as_mut_ptr());
            std::ptr::copy_nonoverlapping(g.as_ptr(), out.add(whole), n - whole);
        }
    }
}
