//! Rows of the embedding table, and the step's output rows.

use super::bind::{Binder, TableRows, View};
use super::plan::{Context, Kernel, Plan, Scope};
use crate::devices::{DeviceError, Slot, WeightRef};

/// `out[:, r] = table[:, token r]`
pub struct Embed<'a> {
    table: TableRows<'a>,
    tokens: &'a [u32],
    out: View,
}

impl<'a> Embed<'a> {
    pub fn bind(
        binder: &Binder<'a>,
        plan: &mut Plan<'a>,
        table: WeightRef,
        n_embd: u32,
        out: Slot,
    ) -> Result<(), DeviceError> {
        let n_embd = n_embd as usize;
        let table = binder.table(table, n_embd)?;
        let n_vocab = table.n_rows();
        let first = binder.first_row();
        let tokens = &binder.step.tokens[first..first + binder.n_rows];
        if let Some(token) = tokens.iter().find(|&&token| token as usize >= n_vocab) {
            return Err(binder.error(format!("token {token} is not one of the {n_vocab} of the embedding table")));
        }
        let out = binder.slot(out, n_embd)?;
        plan.push(Kernel::Embed(Embed { table, tokens, out }), Scope::Rows(binder.n_rows), &[out]);
        Ok(())
    }

    /// # Safety
    /// Nobody else touches this row of `out`.
    pub unsafe fn row(&self, context: &Context<'_>, row: usize) {
        // SAFETY: the caller's contract.
        let out = unsafe { self.out.row_mut(row) };
        if let Err(error) = self.table.read(self.tokens[row] as usize, out) {
            context.fail(|| format!("embedding table: {error}"));
        }
    }
}

/// `out[:, r] = x[:, first + r]`
pub struct TakeOutputs {
    x: View,
    first: usize,
    out: View,
}

impl TakeOutputs {
    pub fn bind<'a>(
        binder: &Binder<'a>,
        plan: &mut Plan<'a>,
        x: Slot,
        width: u32,
        out: Slot,
    ) -> Result<(), DeviceError> {
        let x = binder.slot_of_rows(x, width as usize, binder.step.tokens.len())?;
        let out = binder.slot(out, width as usize)?;
        binder.check_apart(out, &[], &[x])?;
        let op = TakeOutputs { x, first: binder.first_row(), out };
        plan.push(Kernel::TakeOutputs(op), Scope::Rows(binder.n_rows), &[x, out]);
        Ok(())
    }

    /// # Safety
    /// Nobody else touches this row of `out`, nobody writes `x`.
    pub unsafe fn row(&self, row: usize) {
        // SAFETY: the caller's contract; `first + row` is a row of the step.
        unsafe { self.out.row_mut(row).copy_from_slice(self.x.row(self.first + row)) }
    }
}
