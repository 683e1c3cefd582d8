// A few rows of x with one output's weights: what mat-vec kernels share. LC_DTYPE as in quant.cuh, LC_ROWS rows at once.
//
// Block formats multiply bytes: x is rounded to 8 bits in blocks of 32 by quantise_rows first. Every sum has one order,
// whatever the grid. CPU reference: src/devices/cpu/matmul.

// 32 rounded elements, their scale, and the sums of both halves of the rounded elements.
#define X_WORDS 10
#define X_SCALE 8
#define X_SUMS 9

// x [n_in, rows] to blocks of X_WORDS words [n_in / 32, rows]. A thread for each element.
// Grid: (ceil(n_in / 256), rows); block: 256; n_in is a multiple of 32.
extern "C" LC_KERNEL(256) quantise_rows(const float* x, u32 n_in, u32* out) {
    u32 i = lc_block_x() * 256 + lc_thread();
    u64 row = lc_block_y();
    // Groups of 32 lanes are whole or absent.
    float value = i < n_in ? x[row * n_in + i] : 0.0f;
    float top = lc_max_over(value < 0.0f ? -value : value, 32);
    float scale = top / 127.0f;
    i32 rounded = top > 0.0f ? (i32)lc_round_even(value * (127.0f / top)) : 0;
    // Four lanes to a word.
    u32 lane = lc_lane();
    i32 word = (rounded & 0xff) << (8 * (lane & 3));
    word |= lc_shuffle_xor_i32(word, 1);
    word |= lc_shuffle_xor_i32(word, 2);
    i32 sum = lc_sum_over_i32(rounded, 16);
    i32 other = lc_shuffle_xor_i32(sum, 16);
    if (i >= n_in) return;
    u32* block = out + (row * (n_in / 32) + i / 32) * X_WORDS;
    if ((lane & 3) == 0) block[i % 32 / 4] = (u32)word;
    if (i % 32 == 0) {
        block[X_SCALE] = lc_as_u32(scale);
        block[X_SUMS] = (u32)(sum & 0xffff) | (u32)other << 16;
    }
}

#ifdef LC_ROWS

// The lane's share of the products with the rows of x whose numbers are given. `x` is what quantise_rows made, or F32.
LC_DEVICE void dot_rows(const u8* w, const void* x, u32 n_in, const u32* rows, float* sums) {
    LC_UNROLL
    for (u32 r = 0; r < LC_ROWS; r++) sums[r] = 0.0f;
#if LC_IS_QUANTISED
    u32 n_blocks = n_in / 32;
    for (u32 block = lc_lane(); block < n_blocks; block += LC_WAVE) {
        LcGroup groups[4];
        LC_UNROLL
        for (u32 g = 0; g < 4; g++) groups[g] = lc_group(w, block * 4 + g);
        LC_UNROLL
        for (u32 r = 0; r < LC_ROWS; r++) {
            const u32* xs = (const u32*)x + ((u64)rows[r] * n_blocks + block) * X_WORDS;
            i32 first = lc_dot4(groups[0].low, (i32)xs[0], lc_dot4(groups[0].high, (i32)xs[1], 0));
            first = lc_dot4(groups[1].low, (i32)xs[2], lc_dot4(groups[1].high, (i32)xs[3], first));
            i32 second = lc_dot4(groups[2].low, (i32)xs[4], lc_dot4(groups[2].high, (i32)xs[5], 0));
            second = lc_dot4(groups[3].low, (i32)xs[6], lc_dot4(groups[3].high, (i32)xs[7], second));
            float first_sum = (float)(i16)(xs[X_SUMS] & 0xffff), second_sum = (float)(i16)(xs[X_SUMS] >> 16);
            float part = groups[0].scale * (float)first - groups[0].offset * first_sum;
            part += groups[2].scale * (float)second - groups[2].offset * second_sum;
            sums[r] = lc_fma(lc_as_f32(xs[X_SCALE]), part, sums[r]);
        }
    }
#else
    for (u32 i = lc_lane(); i < n_in; i += LC_WAVE) {
        float weight = lc_dequantise(w, i);
        LC_UNROLL
        for (u32 r = 0; r < LC_ROWS; r++) {
            sums[r] = lc_fma(weight, ((const float*)x)[(u64)rows[r] * n_in + i], sums[r]);
        }
    }
#endif
}
#endif
