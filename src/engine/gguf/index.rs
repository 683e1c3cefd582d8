//! Finding things by name in lists that keep the order of the file.

/// Positions of a list sorted by name: a second copy of a hundred thousand names is not needed, and no choice of names
/// makes it slow.
pub(super) struct NameIndex {
    sorted: Vec<u32>,
}

impl NameIndex {
    /// Or the position of a name that is there twice.
    pub(super) fn new<'a>(n: usize, name: impl Fn(usize) -> &'a str) -> Result<NameIndex, usize> {
        let mut sorted: Vec<u32> = (0..n as u32).collect();
        sorted.sort_unstable_by(|&a, &b| name(a as usize).cmp(name(b as usize)));
        match sorted.windows(2).find(|pair| name(pair[0] as usize) == name(pair[1] as usize)) {
            Some(pair) => Err(pair[0] as usize),
            None => Ok(NameIndex { sorted }),
        }
    }

    pub(super) fn find<'a>(&self, wanted: &str, name: impl Fn(usize) -> &'a str) -> Option<usize> {
        let found = self.sorted.binary_search_by(|&i| name(i as usize).cmp(wanted)).ok()?;
        Some(self.sorted[found] as usize)
    }
}
