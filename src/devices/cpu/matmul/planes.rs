//! Codes of 16 rows x 32 values, interleaved for dot products of 4 bytes and packed to their own size.
//!
//! Expanded, they are 8 registers of 64 bytes: byte `4 r + t` of register `i` is the code of row `r`, value `4 i + t`.
//! Packed, the lowest bits of all registers come first (the low plane), then the others (the high plane). A plane of `b`
//! bits has `b` registers; register `p` of a plane holds, at bit `b s`, register `i` of the expanded codes, where
//! `i = p + 4 s` in a plane of 4 bits, `i = 4 p + s` in one of 2, `i = s` in one of 1 and `i = p` in one of 8.

/// Bytes of one register.
pub const REGISTER: usize = 64;
/// Codes of 16 rows x 32 values, one byte each.
pub type Codes = [u8; 8 * REGISTER];

/// Bytes of packed codes of `bits` bits.
pub const fn packed_bytes(bits: usize) -> usize {
    bits * REGISTER
}

/// How a code of `bits` bits is split in two planes.
pub const fn split(bits: usize) -> (usize, usize) {
    match bits {
        2 => (2, 0),
        3 => (2, 1),
        4 => (4, 0),
        5 => (4, 1),
        6 => (4, 2),
        _ => (8, 0),
    }
}

/// Place of expanded register `i` in a plane of `bits` bits: register and shift.
#[inline(always)]
pub const fn place(bits: usize, i: usize) -> (usize, usize) {
    match bits {
        4 => (i % 4, 4 * (i / 4)),
        2 => (i / 4, 2 * (i % 4)),
        1 => (0, i),
        _ => (i, 0),
    }
}

/// Packs codes of `BITS` bits into [`packed_bytes`].
pub fn pack<const BITS: usize>(codes: &Codes, packed: &mut [u8]) {
    let (low, high) = split(BITS);
    let (packed, _) = packed[..packed_bytes(BITS)].as_chunks_mut::<REGISTER>();
    packed.as_flattened_mut().fill(0);
    let kept = if low == 8 { 0xff } else { (1 << low) - 1 };
    for (i, codes) in codes.as_chunks::<REGISTER>().0.iter().enumerate() {
        let (register, shift) = place(low, i);
        packed[register].iter_mut().zip(codes).for_each(|(p, code)| *p |= (code & kept) << shift);
        if high > 0 {
            let (register, shift) = place(high, i);
            packed[low + register].iter_mut().zip(codes).for_each(|(p, code)| *p |= code >> low << shift);
        }
    }
}

/// The inverse of [`pack`].
#[inline(always)]
pub fn unpack<const BITS: usize>(packed: &[u8], codes: &mut Codes) {
    let (low, high) = const { split(BITS) };
    let packed = &packed[..packed_bytes(BITS)];
    for i in 0..8 {
        let (register, shift) = place(low, i);
        let low_plane = &packed[register * REGISTER..][..REGISTER];
        let out = &mut codes[i * REGISTER..][..REGISTER];
        let mask = if low == 8 { 0xff } else { (1 << low) - 1 };
        out.iter_mut().zip(low_plane).for_each(|(c, p)| *c = p >> shift & mask);
        if high > 0 {
            let (register, shift) = place(high, i);
            let high_plane = &packed[(low + register) * REGISTER..][..REGISTER];
            let mask = (1 << high) - 1;
            out.iter_mut().zip(high_plane).for_each(|(c, p)| *c |= (p >> shift & mask) << low);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<const BITS: usize>() {
        let codes: Codes = std::array::from_fn(|i| (i * 167 % 251) as u8 & ((1u32 << BITS) - 1) as u8);
        let mut packed = vec![0xaa; packed_bytes(BITS)];
        pack::<BITS>(&codes, &mut packed);
        let mut out = [0; 512];
        unpack::<BITS>(&packed, &mut out);
        assert_eq!(codes, out, "{BITS} bits");
    }

    #[test]
    fn codes_survive() {
        round_trip::<2>();
        round_trip::<3>();
        round_trip::<4>();
        round_trip::<5>();
        round_trip::<6>();
        round_trip::<8>();
    }
}
