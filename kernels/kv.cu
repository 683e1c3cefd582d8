// Writes K and V of the step's rows into the KV cache at their positions.
//
//   LC_KV  GGUF id of the cache's element type: 0 F32, 1 F16, 8 Q8_0
//
// k [head_dim_k * n_kv_head, rows], v likewise, F32; the caches are [head_dim, n_ctx, n_kv_head] of LC_KV, each row
// padded to whole blocks. Grid: x covers a row's elements with each head padded to a multiple of 32, y the rows,
// z is 0 for K and 1 for V. 256 threads a block, one element a thread; 32 neighbouring lanes make a Q8_0 block.
// Reference: src/devices/cpu/kv.rs and quant/q8_0.rs, whose bits these are.

#if LC_KV == 8
// To the nearest, halves away from zero; too large ones become the largest, NaN becomes 0.
LC_DEVICE i32 lc_code(float x) {
    float size = x < 0.0f ? -x : x;
    if (!(size <= 200.0f)) return x > 0.0f ? 127 : (x < 0.0f ? -128 : 0);
    i32 code = (i32)size;
    if (size - (float)code >= 0.5f) code++;
    if (x < 0.0f) return code > 128 ? -128 : -code;
    return code > 127 ? 127 : code;
}
#endif

extern "C" LC_KERNEL(256) kv_append(
    const u32* step, const float* k, const float* v, u8* k_cache, u8* v_cache, u32 n_kv_head, u32 head_dim_k,
    u32 head_dim_v, u32 n_ctx, u32 of_outputs
) {
    u32 row = lc_block_y();
    u32 n_rows = of_outputs ? step[LC_STEP_N_OUTPUTS] : step[LC_STEP_N_TOKENS];
    u32 position = step[LC_STEP_FIRST_POSITION] + (of_outputs ? step[LC_STEP_OUTPUTS_START] : 0) + row;
    if (row >= n_rows || position >= n_ctx) return;
    bool is_v = lc_block_z() != 0;
    const float* from = is_v ? v : k;
    u8* cache = is_v ? v_cache : k_cache;
    u32 head_dim = is_v ? head_dim_v : head_dim_k;
    u32 padded = (head_dim + 31) / 32 * 32;
    u32 i = lc_block_x() * 256 + lc_thread();
    u32 head = i / padded, d = i % padded;
    bool is_in = head < n_kv_head && d < head_dim;
    float x = is_in ? from[((u64)row * n_kv_head + head) * head_dim + d] : 0.0f;
    u64 cell = (u64)head * n_ctx + position;
#if LC_KV == 0
    if (is_in) ((float*)cache)[cell * head_dim + d] = x;
#elif LC_KV == 1
    if (is_in) ((u16*)cache)[cell * head_dim + d] = lc_f32_to_f16(x);
#elif LC_KV == 8
    // As integers, magnitudes compare as they do as floats, and a NaN wins.
    i32 largest = (i32)(lc_as_u32(x) & 0x7fffffffu);
    LC_UNROLL
    for (u32 mask = 16; mask > 0; mask /= 2) {
        i32 other = lc_shuffle_xor_i32(largest, mask);
        largest = other > largest ? other : largest;
    }
    if (head >= n_kv_head) return;
    float scale = lc_as_f32((u32)largest) / 127.0f;
    float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
    u8* block = cache + (cell * (padded / 32) + d / 32) * 34;
    if (d % 32 == 0) *(u16*)block = lc_f32_to_f16(scale);
    block[2 + d % 32] = (u8)(i8)lc_code(x * inverse);
#else
#error "LC_KV is not a type of a KV cache"
#endif
}
