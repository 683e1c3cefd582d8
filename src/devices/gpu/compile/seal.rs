//! Image files: a header that tells damage, then the image.

use sha2::{Digest, Sha256};

const MAGIC: &[u8; 8] = b"LCKIMG1\n";
/// Magic, length, SHA-256.
const HEADER_BYTES: usize = 8 + 8 + 32;

pub fn seal(image: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(HEADER_BYTES + image.len());
    file.extend(MAGIC);
    file.extend((image.len() as u64).to_le_bytes());
    file.extend(Sha256::digest(image));
    file.extend(image);
    file
}

/// `None`: the file is damaged.
pub fn unseal(mut file: Vec<u8>) -> Option<Vec<u8>> {
    let (magic, rest) = file.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (hash, image) = rest.split_first_chunk::<32>()?;
    let is_whole = magic == MAGIC
        && u64::from_le_bytes(*length) == image.len() as u64
        && !image.is_empty()
        && Sha256::digest(image)[..] == hash[..];
    is_whole.then(|| file.split_off(HEADER_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damaged_byte_and_every_cut_is_seen() {
        let image: Vec<u8> = (0..100).collect();
        let file = seal(&image);
        assert_eq!(unseal(file.clone()), Some(image));
        for at in 0..file.len() {
            let mut bad = file.clone();
            bad[at] ^= 1;
            assert_eq!(unseal(bad), None, "byte {at}");
            assert_eq!(unseal(file[..at].to_vec()), None, "cut at {at}");
        }
        assert_eq!(unseal([file, vec![0]].concat()), None);
        assert_eq!(unseal(seal(&[])), None);
    }
}
