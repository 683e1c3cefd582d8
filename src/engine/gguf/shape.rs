//! The shape of a tensor.

use std::fmt;

/// The most dimensions a tensor has.
pub const MAX_DIMS: usize = 4;

/// One to four dimensions, the fastest-running first, none of them 0: `[n_in, n_out]` for a weight matrix.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: [u64; MAX_DIMS],
    n_dims: u8,
}

impl Shape {
    /// `None` for no or more than four dimensions, for a dimension of 0, and where the number of elements overflows.
    pub fn new(dims: &[u64]) -> Option<Shape> {
        if dims.is_empty() || dims.len() > MAX_DIMS || dims.contains(&0) {
            return None;
        }
        dims.iter().try_fold(1u64, |n, &dim| n.checked_mul(dim))?;
        let mut all = [1; MAX_DIMS];
        all[..dims.len()].copy_from_slice(dims);
        Some(Shape { dims: all, n_dims: dims.len() as u8 })
    }

    /// The dimensions that the file names, fastest first.
    pub fn dims(&self) -> &[u64] {
        &self.dims[..usize::from(self.n_dims)]
    }

    /// Dimension `i`; 1 beyond those named.
    pub fn dim(&self, i: usize) -> u64 {
        self.dims.get(i).copied().unwrap_or(1)
    }

    /// Elements in all.
    pub fn n_elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Rows of `dim(0)` elements.
    pub fn n_rows(&self) -> u64 {
        self.dims[1..].iter().product()
    }
}

impl fmt::Display for Shape {
    /// `576 x 49152`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, dim) in self.dims().iter().enumerate() {
            let separator = if i == 0 { "" } else { " x " };
            write!(f, "{separator}{dim}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_and_counts() {
        let shape = Shape::new(&[576, 49152]).unwrap();
        assert_eq!(shape.to_string(), "576 x 49152");
        assert_eq!((shape.n_elements(), shape.n_rows(), shape.dim(3)), (576 * 49152, 49152, 1));
    }

    #[test]
    fn refuses_what_is_no_shape() {
        for dims in [&[][..], &[1, 1, 1, 1, 1], &[3, 0], &[1 << 32, 1 << 32]] {
            assert_eq!(Shape::new(dims), None, "{dims:?}");
        }
    }
}
