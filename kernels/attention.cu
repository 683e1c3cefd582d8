// Causal attention over the KV cache with an online softmax.
//
//   LC_KV                         GGUF id of the cache's element type: 0 F32, 1 F16, 8 Q8_0
//   LC_HEAD_DIM_K, LC_HEAD_DIM_V  elements of a head
//   LC_HEADS                      query heads of a KV head that a block of attention_split computes, 1 to 8
//
// q [head_dim_k * n_head, rows], out [head_dim_v * n_head, rows], F32; the caches are [head_dim, n_ctx, n_kv_head] of
// LC_KV, rows padded to whole blocks. Query head h reads KV head h / group. All blocks have 256 threads.
//
// Few rows: the history is cut at fixed positions into splits of split_len keys (a multiple of 256).
// attention_split, grid (splits, n_kv_head * chunks of LC_HEADS heads of the group, rows), leaves a partial result of
// each head and split: partial_out [head_dim_v, n_splits, n_head, rows], partial_stats [2, n_splits, n_head, rows]
// (largest score, sum); splits behind the row's position leave nothing. attention_combine, grid (n_head, rows), merges
// them in order.
// Many rows: attention_tile, grid (n_head, tiles of 64 rows, parts of 256 elements of V).
//
// Scores are kept times log2(e), so that weights are powers of 2.
// Reference: src/devices/cpu/attention.rs. Source: Milakov and Gimelshein 2018; Dao et al. 2022.

#define LC_INFINITY lc_as_f32(0x7f800000u)

struct __attribute__((aligned(16))) LcF4 {
    float x, y, z, w;
};

template <u32 DIM>
struct LcRow {
#if LC_KV == 0
    static constexpr u32 BYTES = DIM * 4;
#elif LC_KV == 1
    static constexpr u32 BYTES = DIM * 2;
#elif LC_KV == 8
    static constexpr u32 BYTES = (DIM + 31) / 32 * 34;
#else
#error "LC_KV is not a type of a KV cache"
#endif
};

// Elements i to i + 7 of a cache row; i is a multiple of 8. What is not there is 0.
template <u32 DIM>
LC_DEVICE void lc_load8(const u8* row, u32 i, float (&x)[8]) {
    if (i >= DIM) {
        LC_UNROLL
        for (u32 j = 0; j < 8; j++) x[j] = 0.0f;
        return;
    }
#if LC_KV == 8
    const u8* block = row + i / 32 * 34;
    float scale = lc_f16_to_f32(*(const u16*)block);
    const u16* codes = (const u16*)(block + 2 + i % 32);
    LC_UNROLL
    for (u32 j = 0; j < 4; j++) {
        u16 two = codes[j];
        x[2 * j] = (float)(i8)(two & 0xff) * scale;
        x[2 * j + 1] = (float)(i8)(two >> 8) * scale;
    }
#elif LC_KV == 1
    if constexpr (DIM % 8 == 0) {
        LcF4 eight = *(const LcF4*)(row + i * 2);
        u32 words[4] = {lc_as_u32(eight.x), lc_as_u32(eight.y), lc_as_u32(eight.z), lc_as_u32(eight.w)};
        LC_UNROLL
        for (u32 j = 0; j < 4; j++) {
            x[2 * j] = lc_f16_to_f32((u16)(words[j] & 0xffff));
            x[2 * j + 1] = lc_f16_to_f32((u16)(words[j] >> 16));
        }
    } else {
        LC_UNROLL
        for (u32 j = 0; j < 8; j++) x[j] = i + j < DIM ? lc_f16_to_f32(((const u16*)row)[i + j]) : 0.0f;
    }
#else
    if constexpr (DIM % 8 == 0) {
        const LcF4* eight = (const LcF4*)(row + i * 4);
        LcF4 a = eight[0], b = eight[1];
        x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
        x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
    } else {
        LC_UNROLL
        for (u32 j = 0; j < 8; j++) x[j] = i + j < DIM ? ((const float*)row)[i + j] : 0.0f;
    }
#endif
}

LC_DEVICE u32 lc_n_rows(const u32* step, u32 of_outputs) {
    return of_outputs ? step[LC_STEP_N_OUTPUTS] : step[LC_STEP_N_TOKENS];
}

LC_DEVICE u32 lc_first_position(const u32* step, u32 of_outputs) {
    return step[LC_STEP_FIRST_POSITION] + (of_outputs ? step[LC_STEP_OUTPUTS_START] : 0);
}

LC_DEVICE constexpr u32 lc_power_of_2_from(u32 n) {
    u32 power = 1;
    while (power < n) power *= 2;
    return power;
}

// ---- few rows ----

// Keys that are scored together.
#define LC_KEYS 256
// Lanes that share a key, and keys that a lane scores at a time.
#define LC_K_LANES 8
#define LC_K_AT_ONCE 2
#define LC_K_PADDED ((LC_HEAD_DIM_K + 63) / 64 * 64)

extern "C" LC_KERNEL(256) attention_split(
    const u32* step, const float* q, const u8* k_cache, const u8* v_cache, float* partial_out, float* partial_stats,
    u32 n_head, u32 group, u32 n_ctx, u32 split_len, u32 n_splits, float scale, u32 of_outputs
) {
    // Threads that share a row of V, and rows at a time.
    constexpr u32 V_LANES = lc_power_of_2_from((LC_HEAD_DIM_V + 7) / 8);
    constexpr u32 V_ROWS = 256 / V_LANES;
    // Partial sums of V that are left when the lanes of a wave have added theirs.
    constexpr u32 N_SUMS = V_LANES < LC_WAVE ? 256 / LC_WAVE : V_ROWS;
    constexpr u32 N_WAVES = 256 / LC_WAVE;
    constexpr u32 Q_LEN = LC_HEADS * LC_K_PADDED;
    constexpr u32 SUMS_LEN = N_SUMS * V_LANES * 8;

    // Queries first; sums of V when all keys are done.
    __shared__ LcF4 memory[(Q_LEN > SUMS_LEN ? Q_LEN : SUMS_LEN) / 4];
    __shared__ float scores[LC_HEADS][LC_KEYS];
    __shared__ float max_of[LC_HEADS], sum_of[LC_HEADS], factor_of[LC_HEADS];
    float* plain = (float*)memory;

    u32 row = lc_block_z(), split = lc_block_x(), thread = lc_thread(), lane = lc_lane(), wave = lc_wave();
    if (row >= lc_n_rows(step, of_outputs)) return;
    u32 n_visible = lc_first_position(step, of_outputs) + row + 1;
    u64 start = (u64)split * split_len;
    if (start >= n_visible || split >= n_splits) return;
    u32 end = lc_min_u32((u32)start + split_len, n_visible);

    u32 n_chunks = (group + LC_HEADS - 1) / LC_HEADS;
    u32 kv_head = lc_block_y() / n_chunks, chunk = lc_block_y() % n_chunks;
    u32 first_head = kv_head * group + chunk * LC_HEADS;
    u32 n_heads = lc_min_u32(LC_HEADS, group - chunk * LC_HEADS);
    const u8* k_rows = k_cache + (u64)kv_head * n_ctx * LcRow<LC_HEAD_DIM_K>::BYTES;
    const u8* v_rows = v_cache + (u64)kv_head * n_ctx * LcRow<LC_HEAD_DIM_V>::BYTES;

    for (u32 i = thread; i < Q_LEN; i += 256) {
        u32 head = i / LC_K_PADDED, d = i % LC_K_PADDED;
        bool is_in = head < n_heads && d < LC_HEAD_DIM_K;
        u64 at = ((u64)row * n_head + first_head + head) * LC_HEAD_DIM_K + d;
        plain[i] = is_in ? q[at] * scale * LC_LOG2_E : 0.0f;
    }
    if (thread < LC_HEADS) {
        max_of[thread] = -LC_INFINITY;
        sum_of[thread] = 0.0f;
    }
    float out[LC_HEADS][8];
    LC_UNROLL
    for (u32 h = 0; h < LC_HEADS; h++) {
        LC_UNROLL
        for (u32 j = 0; j < 8; j++) out[h][j] = 0.0f;
    }
    lc_sync();

    u32 k_lane = thread % LC_K_LANES, k_key = thread / LC_K_LANES;
    u32 v_lane = thread % V_LANES, v_key = thread / V_LANES;
    for (u32 tile = (u32)start; tile < end; tile += LC_KEYS) {
        u32 n_keys = lc_min_u32(LC_KEYS, end - tile);

        // Loops that are left as they are keep registers few, and so more waves resident.
        constexpr u32 PASS = 256 / LC_K_LANES * LC_K_AT_ONCE;
        _Pragma("unroll 1")
        for (u32 pass = 0; pass < n_keys; pass += PASS) {
            const u8* rows[LC_K_AT_ONCE];
            float dots[LC_K_AT_ONCE][LC_HEADS];
            LC_UNROLL
            for (u32 n = 0; n < LC_K_AT_ONCE; n++) {
                // Past the end, the last key again: its score is not used.
                u32 key = lc_min_u32(pass + n * (256 / LC_K_LANES) + k_key, n_keys - 1);
                rows[n] = k_rows + (u64)(tile + key) * LcRow<LC_HEAD_DIM_K>::BYTES;
                LC_UNROLL
                for (u32 h = 0; h < LC_HEADS; h++) dots[n][h] = 0.0f;
            }
            _Pragma("unroll 1")
            for (u32 part = 0; part < LC_K_PADDED; part += LC_K_LANES * 8) {
                u32 d = part + k_lane * 8;
                float k[LC_K_AT_ONCE][8];
                LC_UNROLL
                for (u32 n = 0; n < LC_K_AT_ONCE; n++) lc_load8<LC_HEAD_DIM_K>(rows[n], d, k[n]);
                LC_UNROLL
                for (u32 h = 0; h < LC_HEADS; h++) {
                    LcF4 a = memory[(h * LC_K_PADDED + d) / 4], b = memory[(h * LC_K_PADDED + d) / 4 + 1];
                    float eight[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
                    LC_UNROLL
                    for (u32 n = 0; n < LC_K_AT_ONCE; n++) {
                        LC_UNROLL
                        for (u32 j = 0; j < 8; j++) dots[n][h] = lc_fma(k[n][j], eight[j], dots[n][h]);
                    }
                }
            }
            LC_UNROLL
            for (u32 n = 0; n < LC_K_AT_ONCE; n++) {
                u32 key = pass + n * (256 / LC_K_LANES) + k_key;
                LC_UNROLL
                for (u32 h = 0; h < LC_HEADS; h++) {
                    float score = lc_sum_over(dots[n][h], LC_K_LANES);
                    if (k_lane == h) scores[h][key] = key < n_keys ? score : -LC_INFINITY;
                }
            }
        }
        lc_sync();

        _Pragma("unroll 1")
        for (u32 h = wave; h < LC_HEADS; h += N_WAVES) {
            float values[LC_KEYS / LC_WAVE];
            float largest = max_of[h];
            LC_UNROLL
            for (u32 n = 0; n < LC_KEYS / LC_WAVE; n++) {
                u32 key = n * LC_WAVE + lane;
                values[n] = key < n_keys ? scores[h][key] : -LC_INFINITY;
                largest = lc_max(largest, values[n]);
            }
            largest = lc_max_over(largest, LC_WAVE);
            float sum = 0.0f;
            LC_UNROLL
            for (u32 n = 0; n < LC_KEYS / LC_WAVE; n++) {
                float weight = lc_exp2(values[n] - largest);
                scores[h][n * LC_WAVE + lane] = weight;
                sum += weight;
            }
            sum = lc_sum_over(sum, LC_WAVE);
            // All lanes have read the old largest: the wave's reductions lie between.
            if (lane == 0) {
                float factor = lc_exp2(max_of[h] - largest);
                factor_of[h] = factor;
                sum_of[h] = sum_of[h] * factor + sum;
                max_of[h] = largest;
            }
        }
        lc_sync();

        LC_UNROLL
        for (u32 h = 0; h < LC_HEADS; h++) {
            float factor = factor_of[h];
            LC_UNROLL
            for (u32 j = 0; j < 8; j++) out[h][j] *= factor;
        }
        _Pragma("unroll 2")
        for (u32 key = v_key; key < n_keys; key += V_ROWS) {
            float v[8];
            lc_load8<LC_HEAD_DIM_V>(v_rows + (u64)(tile + key) * LcRow<LC_HEAD_DIM_V>::BYTES, v_lane * 8, v);
            LC_UNROLL
            for (u32 h = 0; h < LC_HEADS; h++) {
                float weight = scores[h][key];
                LC_UNROLL
                for (u32 j = 0; j < 8; j++) out[h][j] = lc_fma(weight, v[j], out[h][j]);
            }
        }
        lc_sync();
    }

    LC_UNROLL
    for (u32 h = 0; h < LC_HEADS; h++) {
        LC_UNROLL
        for (u32 j = 0; j < 8; j++) {
            LC_UNROLL
            for (u32 mask = V_LANES; mask < LC_WAVE; mask *= 2) out[h][j] += lc_shuffle_xor(out[h][j], mask);
        }
        if (V_LANES >= LC_WAVE || lane < V_LANES) {
            u32 at = ((V_LANES < LC_WAVE ? wave : v_key) * V_LANES + v_lane) * 2;
            memory[at] = LcF4{out[h][0], out[h][1], out[h][2], out[h][3]};
            memory[at + 1] = LcF4{out[h][4], out[h][5], out[h][6], out[h][7]};
        }
        lc_sync();
        if (h < n_heads) {
            u64 at = ((u64)row * n_head + first_head + h) * n_splits + split;
            for (u32 d = thread; d < LC_HEAD_DIM_V; d += 256) {
                float sum = 0.0f;
                for (u32 i = 0; i < N_SUMS; i++) sum += plain[i * V_LANES * 8 + d];
                partial_out[at * LC_HEAD_DIM_V + d] = sum;
            }
            if (thread == 0) {
                partial_stats[at * 2] = max_of[h];
                partial_stats[at * 2 + 1] = sum_of[h];
            }
        }
        lc_sync();
    }
}

extern "C" LC_KERNEL(256) attention_combine(
    const u32* step, const float* partial_out, const float* partial_stats, float* out, u32 n_head, u32 split_len,
    u32 n_splits, u32 of_outputs
) {
    u32 head = lc_block_x(), row = lc_block_y();
    if (row >= lc_n_rows(step, of_outputs)) return;
    u32 n_visible = lc_first_position(step, of_outputs) + row + 1;
    u32 n = lc_min_u32((n_visible + split_len - 1) / split_len, n_splits);
    u64 first = ((u64)row * n_head + head) * n_splits;
    const float* stats = partial_stats + first * 2;
    const float* parts = partial_out + first * LC_HEAD_DIM_V;
    float largest = -LC_INFINITY;
    for (u32 i = 0; i < n; i++) largest = lc_max(largest, stats[2 * i]);
    for (u32 d = lc_thread(); d < LC_HEAD_DIM_V; d += 256) {
        float total = 0.0f, sum = 0.0f;
        for (u32 i = 0; i < n; i++) {
            float factor = lc_exp2(stats[2 * i] - largest);
            sum = lc_fma(stats[2 * i + 1], factor, sum);
            total = lc_fma(parts[(u64)i * LC_HEAD_DIM_V + d], factor, total);
        }
        out[((u64)row * n_head + head) * LC_HEAD_DIM_V + d] = total / sum;
    }
}

// ---- many rows ----

// Rows and keys of a tile; a thread has 4 rows and 4 keys or elements of V.
#define LC_TILE 64
#define LC_STRIDE (LC_TILE + 4)
// Elements of Q and K that are staged at a time.
#define LC_STAGE 32
// Elements of V that a block computes.
#define LC_V_PART 256

extern "C" LC_KERNEL(256) attention_tile(
    const u32* step, const float* q, const u8* k_cache, const u8* v_cache, float* out, u32 n_head, u32 group,
    u32 n_ctx, float scale, u32 of_outputs
) {
    constexpr u32 V_DIMS = LC_HEAD_DIM_V < LC_V_PART ? LC_HEAD_DIM_V : LC_V_PART;
    constexpr u32 V_STAGES = (V_DIMS + LC_TILE - 1) / LC_TILE;
    // Q [rows, LC_STAGE] and K [keys, LC_STAGE], later V [64 elements, keys]; weights [rows, keys].
    __shared__ LcF4 staged[LC_TILE * LC_STRIDE / 4];
    __shared__ LcF4 weights[LC_TILE * LC_STRIDE / 4];
    float* staged_q = (float*)staged;
    float* staged_k = staged_q + LC_STAGE * LC_STRIDE;

    u32 n_rows = lc_n_rows(step, of_outputs);
    u32 n_tiles = (n_rows + LC_TILE - 1) / LC_TILE;
    if (lc_block_y() >= n_tiles) return;
    // The last rows see the most keys: they go first.
    u32 first_row = (n_tiles - 1 - lc_block_y()) * LC_TILE;
    u32 first_position = lc_first_position(step, of_outputs) + first_row;
    u32 end = lc_first_position(step, of_outputs) + lc_min_u32(first_row + LC_TILE, n_rows);
    u32 head = lc_block_x(), kv_head = head / group, v_start = lc_block_z() * LC_V_PART;
    const u8* k_rows = k_cache + (u64)kv_head * n_ctx * LcRow<LC_HEAD_DIM_K>::BYTES;
    const u8* v_rows = v_cache + (u64)kv_head * n_ctx * LcRow<LC_HEAD_DIM_V>::BYTES;

    u32 thread = lc_thread(), tx = thread % 16, ty = thread / 16;
    float sums[V_STAGES][4][4];
    float max_of[4], sum_of[4];
    LC_UNROLL
    for (u32 r = 0; r < 4; r++) {
        max_of[r] = -LC_INFINITY;
        sum_of[r] = 0.0f;
        LC_UNROLL
        for (u32 s = 0; s < V_STAGES; s++) {
            LC_UNROLL
            for (u32 c = 0; c < 4; c++) sums[s][r][c] = 0.0f;
        }
    }

    for (u32 tile = 0; tile < end; tile += LC_TILE) {
        float scores[4][4];
        LC_UNROLL
        for (u32 r = 0; r < 4; r++) {
            LC_UNROLL
            for (u32 c = 0; c < 4; c++) scores[r][c] = 0.0f;
        }
        for (u32 stage = 0; stage < LC_HEAD_DIM_K; stage += LC_STAGE) {
            lc_sync();
            u32 i = thread % LC_TILE, d = thread / LC_TILE * 8;
            u64 q_row = ((u64)(first_row + i) * n_head + head) * LC_HEAD_DIM_K;
            bool has_row = first_row + i < n_rows;
            float k[8];
            u32 key = lc_min_u32(tile + i, end - 1);
            lc_load8<LC_HEAD_DIM_K>(k_rows + (u64)key * LcRow<LC_HEAD_DIM_K>::BYTES, stage + d, k);
            LC_UNROLL
            for (u32 j = 0; j < 8; j++) {
                bool is_in = has_row && stage + d + j < LC_HEAD_DIM_K;
                staged_q[(d + j) * LC_STRIDE + i] = is_in ? q[q_row + stage + d + j] * scale * LC_LOG2_E : 0.0f;
                staged_k[(d + j) * LC_STRIDE + i] = k[j];
            }
            lc_sync();
            _Pragma("unroll 8")
            for (u32 n = 0; n < LC_STAGE; n++) {
                LcF4 a = ((const LcF4*)staged_q)[n * (LC_STRIDE / 4) + ty];
                LcF4 b = ((const LcF4*)staged_k)[n * (LC_STRIDE / 4) + tx];
                float of_q[4] = {a.x, a.y, a.z, a.w}, of_k[4] = {b.x, b.y, b.z, b.w};
                LC_UNROLL
                for (u32 r = 0; r < 4; r++) {
                    LC_UNROLL
                    for (u32 c = 0; c < 4; c++) scores[r][c] = lc_fma(of_q[r], of_k[c], scores[r][c]);
                }
            }
        }

        LC_UNROLL
        for (u32 r = 0; r < 4; r++) {
            // Key 0 is seen by every row: from the first tile on, the largest score is a number.
            u32 position = lc_min_u32(first_position + ty * 4 + r, end - 1);
            float largest = max_of[r];
            LC_UNROLL
            for (u32 c = 0; c < 4; c++) {
                if (tile + tx * 4 + c > position) scores[r][c] = -LC_INFINITY;
                largest = lc_max(largest, scores[r][c]);
            }
            largest = lc_max_over(largest, 16);
            float factor = lc_exp2(max_of[r] - largest);
            max_of[r] = largest;
            float sum = 0.0f;
            LC_UNROLL
            for (u32 c = 0; c < 4; c++) {
                scores[r][c] = lc_exp2(scores[r][c] - largest);
                sum += scores[r][c];
            }
            sum_of[r] = sum_of[r] * factor + lc_sum_over(sum, 16);
            LC_UNROLL
            for (u32 s = 0; s < V_STAGES; s++) {
                LC_UNROLL
                for (u32 c = 0; c < 4; c++) sums[s][r][c] *= factor;
            }
        }
        LC_UNROLL
        for (u32 c = 0; c < 4; c++) {
            weights[(tx * 4 + c) * (LC_STRIDE / 4) + ty] =
                LcF4{scores[0][c], scores[1][c], scores[2][c], scores[3][c]};
        }

        LC_UNROLL
        for (u32 s = 0; s < V_STAGES; s++) {
            lc_sync();
            LC_UNROLL
            for (u32 n = 0; n < 2; n++) {
                u32 key = n * 32 + thread / 8, d = thread % 8 * 8;
                float v[8];
                // Past the end, the last key again, with weight 0: what the cache holds there may be no number.
                u32 position = lc_min_u32(tile + key, end - 1);
                const u8* v_row = v_rows + (u64)position * LcRow<LC_HEAD_DIM_V>::BYTES;
                lc_load8<LC_HEAD_DIM_V>(v_row, v_start + s * LC_TILE + d, v);
                u32 at = key * (LC_STRIDE / 4) + d / 4;
                staged[at] = LcF4{v[0], v[1], v[2], v[3]};
                staged[at + 1] = LcF4{v[4], v[5], v[6], v[7]};
            }
            lc_sync();
            _Pragma("unroll 8")
            for (u32 key = 0; key < LC_TILE; key++) {
                LcF4 a = weights[key * (LC_STRIDE / 4) + ty], b = staged[key * (LC_STRIDE / 4) + tx];
                float of_row[4] = {a.x, a.y, a.z, a.w}, of_v[4] = {b.x, b.y, b.z, b.w};
                LC_UNROLL
                for (u32 r = 0; r < 4; r++) {
                    LC_UNROLL
                    for (u32 c = 0; c < 4; c++) sums[s][r][c] = lc_fma(of_row[r], of_v[c], sums[s][r][c]);
                }
            }
        }
    }

    LC_UNROLL
    for (u32 r = 0; r < 4; r++) {
        u32 row = first_row + ty * 4 + r;
        float factor = 1.0f / sum_of[r];
        LC_UNROLL
        for (u32 s = 0; s < V_STAGES; s++) {
            LC_UNROLL
            for (u32 c = 0; c < 4; c++) {
                u32 d = v_start + s * LC_TILE + tx * 4 + c;
                bool is_in = row < n_rows && d < LC_HEAD_DIM_V;
                if (is_in) out[((u64)row * n_head + head) * LC_HEAD_DIM_V + d] = sums[s][r][c] * factor;
            }
        }
    }
}
