//! Code objects before a library gets to see them.

/// Whether an ELF file's header tables lie inside it. The section headers stand at its end, so a file that was cut off
/// is not whole. Other formats are not looked into.
pub fn is_whole(image: &[u8]) -> bool {
    if !image.starts_with(b"\x7fELF") {
        return !image.is_empty();
    }
    let u16_at = |at| image.get(at..at + 2).map(|bytes| u64::from(u16::from_le_bytes([bytes[0], bytes[1]])));
    let u64_at = |at: usize| Some(u64::from_le_bytes(image.get(at..at + 8)?.try_into().ok()?));
    // Offset, size of one and number, of program and of section headers (ELF-64).
    [(32, 54, 56), (40, 58, 60)].into_iter().all(|(offset, size, n)| {
        let end = || u64_at(offset)?.checked_add(u16_at(size)? * u16_at(n)?);
        end().is_some_and(|end| end <= image.len() as u64)
    })
}

/// A copy at an address that headers can be read from, with zeros behind it.
pub fn aligned_with_end(image: &[u8]) -> Box<[u64]> {
    let words = image.chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_ne_bytes(word)
    });
    words.chain([0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_code_object_that_was_cut_off_is_refused() {
        // This test itself is an ELF-64 file.
        let whole = std::fs::read("/proc/self/exe").unwrap();
        assert!(is_whole(&whole));
        for n_bytes in [0, 4, 20, 63, 1000, whole.len() - 1] {
            assert!(!is_whole(&whole[..n_bytes]), "{n_bytes}");
        }
        assert!(is_whole(b".version 8.0") && is_whole(b"__CLANG_OFFLOAD_BUNDLE__"));
    }

    #[test]
    fn an_image_is_aligned_and_ends_with_zeros() {
        for n_bytes in [1, 8, 13] {
            let image: Vec<u8> = (1..=n_bytes).collect();
            let copy: Vec<u8> = aligned_with_end(&image).iter().flat_map(|word| word.to_ne_bytes()).collect();
            assert_eq!(copy[..image.len()], image);
            assert!(copy.len() >= image.len() + 8 && copy[image.len()..].iter().all(|byte| *byte == 0));
        }
    }
}
