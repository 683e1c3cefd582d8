// The weight formats, on the layout that they have in a GGUF file. LC_DTYPE is the format's GGUF type id.
//
// Everything is made of groups of 8 neighbouring elements: element = scale * quant - offset, with the quants as signed
// bytes, four to a word. References: src/devices/quant/<format>.rs.
//
//   LC_BLOCK_LEN, LC_BLOCK_BYTES          a block
//   LC_IS_QUANTISED                       1: groups as above; 0: elements are floating-point numbers
//   lc_group(row, g)                      group g of a row, where quantised
//   lc_dequantise8(row, g, out)           its 8 elements
//   lc_dequantise(row, i)                 element i of a row

struct LcGroup {
    i32 low, high;  // quants 0-3 and 4-7
    float scale, offset;
};

#if LC_DTYPE == 0
#define LC_BLOCK_LEN 1
#define LC_BLOCK_BYTES 4
#define LC_IS_QUANTISED 0
LC_DEVICE float lc_dequantise(const u8* row, u32 i) { return ((const float*)row)[i]; }
#elif LC_DTYPE == 1
#define LC_BLOCK_LEN 1
#define LC_BLOCK_BYTES 2
#define LC_IS_QUANTISED 0
LC_DEVICE float lc_dequantise(const u8* row, u32 i) { return lc_f16_to_f32(((const u16*)row)[i]); }
#elif LC_DTYPE == 30
#define LC_BLOCK_LEN 1
#define LC_BLOCK_BYTES 2
#define LC_IS_QUANTISED 0
LC_DEVICE float lc_dequantise(const u8* row, u32 i) { return lc_bf16_to_f32(((const u16*)row)[i]); }
#else
#define LC_IS_QUANTISED 1

LC_DEVICE float scale_at(const u8* p) { return lc_f16_to_f32(lc_load_u16_a2(p)); }

// Bits 0-3 of `bits` to bit `at` of bytes 0-3.
LC_DEVICE i32 spread(u32 bits, u32 at) {
    return (i32)(((bits & 1) | (bits & 2) << 7 | (bits & 4) << 14 | (bits & 8) << 21) << at);
}

#if LC_DTYPE == 2 || LC_DTYPE == 3 || LC_DTYPE == 6 || LC_DTYPE == 7
// Blocks of 32: scale, maybe offset, maybe fifth bits, then nibbles; byte j has elements j and j + 16.
#define LC_BLOCK_LEN 32
#if LC_DTYPE == 2  // Q4_0
#define LC_BLOCK_BYTES 18
#elif LC_DTYPE == 3  // Q4_1
#define LC_BLOCK_BYTES 20
#elif LC_DTYPE == 6  // Q5_0
#define LC_BLOCK_BYTES 22
#else  // Q5_1
#define LC_BLOCK_BYTES 24
#endif
LC_DEVICE LcGroup lc_group(const u8* row, u32 g) {
    const u8* block = row + (u64)(g / 4) * LC_BLOCK_BYTES;
    u32 part = g % 4;
    const u8* quants = block + (LC_BLOCK_BYTES - 16) + (part & 1) * 8;
    u32 shift = 4 * (part >> 1);
    LcGroup group;
    group.low = (i32)(lc_load_u32_a2(quants) >> shift & 0x0f0f0f0fu);
    group.high = (i32)(lc_load_u32_a2(quants + 4) >> shift & 0x0f0f0f0fu);
#if LC_DTYPE == 6 || LC_DTYPE == 7
    u32 fifth = lc_load_u32_a2(block + (LC_BLOCK_BYTES - 20)) >> (8 * part);
    group.low |= spread(fifth, 4);
    group.high |= spread(fifth >> 4, 4);
#endif
    group.scale = scale_at(block);
#if LC_DTYPE == 2
    group.offset = 8.0f * group.scale;
#elif LC_DTYPE == 6
    group.offset = 16.0f * group.scale;
#else
    group.offset = -scale_at(block + 2);
#endif
    return group;
}

#elif LC_DTYPE == 8  // Q8_0
#define LC_BLOCK_LEN 32
#define LC_BLOCK_BYTES 34
LC_DEVICE LcGroup lc_group(const u8* row, u32 g) {
    const u8* block = row + (u64)(g / 4) * LC_BLOCK_BYTES;
    const u8* quants = block + 2 + (g % 4) * 8;
    LcGroup group;
    group.low = (i32)lc_load_u32_a2(quants);
    group.high = (i32)lc_load_u32_a2(quants + 4);
    group.scale = scale_at(block);
    group.offset = 0.0f;
    return group;
}

#elif LC_DTYPE == 10  // Q2_K
#define LC_BLOCK_LEN 256
#define LC_BLOCK_BYTES 84
// Halves of 128; two bits of byte l at shift 2j are element 32 j + l of the half.
LC_DEVICE LcGroup lc_group(const u8* row, u32 g) {
    const u8* block = row + (u64)(g / 32) * LC_BLOCK_BYTES;
    u32 half = g / 16 % 2, shift = g / 4 % 4 * 2;
    const u8* quants = block + 16 + half * 32 + g % 4 * 8;
    u32 scale = block[g / 2 % 16];
    LcGroup group;
    group.low = (i32)(lc_load_u32_a4(quants) >> shift & 0x03030303u);
    group.high = (i32)(lc_load_u32_a4(quants + 4) >> shift & 0x03030303u);
    group.scale = scale_at(block + 80) * (float)(scale & 15);
    group.offset = scale_at(block + 82) * (float)(scale >> 4);
    return group;
}

#elif LC_DTYPE == 11  // Q3_K
#define LC_BLOCK_LEN 256
#define LC_BLOCK_BYTES 110
// As Q2_K, with a third bit: bit 4 half + j of hmask[l].
LC_DEVICE LcGroup lc_group(const u8* row, u32 g) {
    const u8* block = row + (u64)(g / 32) * LC_BLOCK_BYTES;
    u32 half = g / 16 % 2, j = g / 4 % 4, l = g % 4 * 8;
    const u8* quants = block + 32 + half * 32 + l;
    u32 bit = half * 4 + j;
    LcGroup group;
    group.low = (i32)(lc_load_u32_a2(quants) >> (2 * j) & 0x03030303u);
    group.high = (i32)(lc_load_u32_a2(quants + 4) >> (2 * j) & 0x03030303u);
    group.low |= (i32)((lc_load_u32_a2(block + l) >> bit & 0x01010101u) << 2);
    group.high |= (i32)((lc_load_u32_a2(block + l + 4) >> bit & 0x01010101u) << 2);
    // 16 scales of 6 bits: the low four in 8 bytes, the high two in 4.
    u32 i = g / 2 % 16;
    const u8* scales = block + 96;
    u32 low = scales[i % 8] >> (i / 8 * 4) & 15, high = scales[8 + i % 4] >> (i / 4 * 2) & 3;
    group.scale = scale_at(block + 108) * (float)((i32)(low | high << 4) - 32);
    group.offset = 4.0f * group.scale;
    return group;
}

#elif LC_DTYPE == 12 || LC_DTYPE == 13  // Q4_K, Q5_K
#define LC_BLOCK_LEN 256
#if LC_DTYPE == 12
#define LC_BLOCK_BYTES 144
#define LC_QUANTS_AT 16
#else
#define LC_BLOCK_BYTES 176
#define LC_QUANTS_AT 48
#endif
// Eight parts of 32, each with a scale and an offset of 6 bits; two parts share 32 bytes of nibbles.
LC_DEVICE LcGroup lc_group(const u8* row, u32 g) {
    const u8* block = row + (u64)(g / 32) * LC_BLOCK_BYTES;
    u32 part = g / 4 % 8, l = g % 4 * 8;
    const u8* quants = block + LC_QUANTS_AT + part / 2 * 32 + l;
    u32 shift = part % 2 * 4;
    LcGroup group;
    group.low = (i32)(lc_load_u32_a4(quants) >> shift & 0x0f0f0f0fu);
    group.high = (i32)(lc_load_u32_a4(quants + 4) >> shift & 0x0f0f0f0fu);
#if LC_DTYPE == 13
    group.low |= (i32)((lc_load_u32_a4(block + 16 + l) >> part & 0x01010101u) << 4);
    group.high |= (i32)((lc_load_u32_a4(block + 20 + l) >> part & 0x01010101u) << 4);
#endif
    const u8* scales = block + 4;
    u32 scale, offset;
    if (part < 4) {
        scale = scales[part] & 63;
        offset = scales[part + 4] & 63;
    } else {
        scale = (scales[part + 4] & 15) | (u32)(scales[part - 4] >> 6) << 4;
        offset = (u32)(scales[part + 4] >> 4) | (u32)(scales[part] >> 6) << 4;
    }
    group.scale = scale_at(block) * (float)scale;
    group.offset = scale_at(block + 2) * (float)offset;
    return group;
}

#elif LC_DTYPE == 14  // Q6_K
#define LC_BLOCK_LEN 256
#define LC_BLOCK_BYTES 210
// Halves of 128, quarters of 32: quarter t has nibbles at shift 4 (t / 2) of bytes 32 (t % 2) on, and two more bits at
// shift 2 t of the high bytes.
LC_DEVICE LcGroup lc_group(const u8* row, u32 g) {
    const u8* block = row + (u64)(g / 32) * LC_BLOCK_BYTES;
    u32 half = g / 16 % 2, t = g / 4 % 4, l = g % 4 * 8;
    const u8* nibbles = block + half * 64 + t % 2 * 32 + l;
    const u8* tops = block + 128 + half * 32 + l;
    u32 shift = t / 2 * 4;
    LcGroup group;
    group.low = (i32)((lc_load_u32_a2(nibbles) >> shift & 0x0f0f0f0fu) |
                      (lc_load_u32_a2(tops) >> (2 * t) & 0x03030303u) << 4);
    group.high = (i32)((lc_load_u32_a2(nibbles + 4) >> shift & 0x0f0f0f0fu) |
                       (lc_load_u32_a2(tops + 4) >> (2 * t) & 0x03030303u) << 4);
    group.scale = scale_at(block + 208) * (float)(i8)block[192 + g / 2 % 16];
    group.offset = 32.0f * group.scale;
    return group;
}
#else
#error "LC_DTYPE is no supported weight format"
#endif

LC_DEVICE float element_of(const LcGroup& group, i32 word, u32 at) {
    return lc_fma(group.scale, (float)(i8)(word >> (8 * at)), -group.offset);
}

LC_DEVICE float lc_dequantise(const u8* row, u32 i) {
    LcGroup group = lc_group(row, i / 8);
    return element_of(group, i & 4 ? group.high : group.low, i & 3);
}
#endif

// Elements 8 g to 8 g + 7 of a row that has them all.
LC_DEVICE void lc_dequantise8(const u8* row, u32 g, float* out) {
#if LC_IS_QUANTISED
    LcGroup group = lc_group(row, g);
    LC_UNROLL
    for (u32 i = 0; i < 4; i++) {
        out[i] = element_of(group, group.low, i);
        out[4 + i] = element_of(group, group.high, i);
    }
#else
    LC_UNROLL
    for (u32 i = 0; i < 8; i++) out[i] = lc_dequantise(row, 8 * g + i);
#endif
}

// Bytes of a row of `n_in` elements.
LC_DEVICE u64 lc_row_bytes(u32 n_in) { return (u64)(n_in / LC_BLOCK_LEN) * LC_BLOCK_BYTES; }
