//! What holds for every file that the GGUF reader accepts. Shared by the libFuzzer target and the stable fuzzer.

use layercake::engine::gguf::{Header, parse_header};

/// Parses `bytes` as the start of a file of `file_bytes`; whether it was accepted.
///
/// # Panics
/// Where the reader lets something through that it promises to refuse.
pub fn check_gguf(bytes: &[u8], file_bytes: u64) -> bool {
    match parse_header(bytes, file_bytes) {
        Ok(header) => {
            check_header(&header, file_bytes);
            true
        }
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains(|c: char| c.is_control()), "not one clean line: {line:?}");
            assert!(line.len() < 2000, "a long error: {line}");
            false
        }
    }
}

fn check_header(header: &Header, file_bytes: u64) {
    let mut ranges: Vec<(u64, u64)> = header.tensors.iter().map(|t| (t.offset, t.offset + t.n_bytes)).collect();
    ranges.sort_unstable();
    for &(start, end) in &ranges {
        assert!(start >= header.data_start && start < end && end <= file_bytes, "a tensor outside the file");
        assert!(start.is_multiple_of(8), "a tensor that is not aligned");
    }
    assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "tensors overlap");
    for tensor in &header.tensors {
        assert_eq!(tensor.dtype.bytes_of(tensor.shape.n_elements()), Some(tensor.n_bytes));
    }
    let metadata = &header.metadata;
    for (key, value) in metadata.iter() {
        let found = metadata.get(key).expect("a key that is listed is found");
        assert!(std::ptr::eq(found, value), "another key is found");
        // Any getter may meet any value: an error is fine, a panic is not.
        let _ = (metadata.opt_u32(key), metadata.opt_u64(key), metadata.opt_f32(key), metadata.opt_bool(key));
        let _ = (metadata.opt_str(key), metadata.opt_bool_array(key), metadata.opt_f32_array(key));
        let _ = (metadata.opt_i32_array(key), metadata.opt_u32_or_array(key, 2));
        if let Ok(Some(strings)) = metadata.opt_str_array(key) {
            let n_text_bytes: usize = strings.iter().map(str::len).sum();
            assert!((n_text_bytes as u64) < file_bytes && strings.get(strings.len()).is_none());
        }
        assert!(value.to_string().len() < 10_000, "a long value is shown in full");
    }
}
