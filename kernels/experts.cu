// Products with the matrices of the experts that were chosen for each row, and the sum of their results.
//
// ids [n_used, rows]: the pair p = u + n_used * row goes with expert ids[p]. w [n_in, n_out, n_expert] of LC_DTYPE in the
// file's layout; x [n_in, rows], or [n_in, pairs] with x_per_expert; out [n_out, pairs]. CPU reference:
// src/devices/cpu/moe.rs.
//
// Pairs of one expert are computed up to LC_ROWS at a time, so that its weights are read once for all of them. With
// LC_ROWS 1 every pair is a group of its own; else group_pairs makes the groups first. A group is LC_ROWS + 1 words: the
// expert, then pairs, NO_PAIR where there are no more.

#define NO_PAIR 0xffffffffu

#ifdef LC_ROWS

#if LC_ROWS > 1
// Grid: one block of 256. groups [LC_ROWS + 1, at most n_pairs / LC_ROWS + LC_N_EXPERT]; n_groups [1].
extern "C" LC_KERNEL(256) group_pairs(const u32* ids, u32 n_pairs, u32* groups, u32* n_groups) {
    __shared__ u32 starts[LC_N_EXPERT];
    u32 t = lc_thread();
    for (u32 expert = t; expert < LC_N_EXPERT; expert += 256) {
        u32 n = 0;
        for (u32 p = 0; p < n_pairs; p++) n += lc_min_u32(ids[p], LC_N_EXPERT - 1) == expert;
        starts[expert] = (n + LC_ROWS - 1) / LC_ROWS;
    }
    lc_sync();
    if (t == 0) {
        u32 start = 0;
        for (u32 expert = 0; expert < LC_N_EXPERT; expert++) {
            u32 n = starts[expert];
            starts[expert] = start;
            start += n;
        }
        *n_groups = start;
    }
    lc_sync();
    for (u32 expert = t; expert < LC_N_EXPERT; expert += 256) {
        u32* group = groups + (u64)starts[expert] * (LC_ROWS + 1);
        u32 n = 0;
        for (u32 p = 0; p < n_pairs; p++) {
            if (lc_min_u32(ids[p], LC_N_EXPERT - 1) != expert) continue;
            if (n == 0) group[0] = expert;
            group[1 + n] = p;
            if (++n == LC_ROWS) {
                n = 0;
                group += LC_ROWS + 1;
            }
        }
        for (; n > 0 && n < LC_ROWS; n++) group[1 + n] = NO_PAIR;
    }
}
#endif

// A wave for each output of a group. Grid: (ceil(n_out / (256 / LC_WAVE)), groups, maybe more); block: 256.
extern "C" LC_KERNEL(256) expert_matvec(const u8* w, const void* x, const u32* ids, const u32* groups,
                                        const u32* n_groups, u32 n_in, u32 n_out, u32 n_used, u32 x_per_expert,
                                        float* out) {
    u32 o = lc_block_x() * (256 / LC_WAVE) + lc_wave();
    // Lanes of a wave that is not needed leave together.
    if (o >= n_out) return;
    u32 pairs[LC_ROWS], rows[LC_ROWS];
#if LC_ROWS > 1
    if (lc_block_y() >= *n_groups) return;
    const u32* group = groups + (u64)lc_block_y() * (LC_ROWS + 1);
    u64 expert = group[0];
    LC_UNROLL
    for (u32 r = 0; r < LC_ROWS; r++) pairs[r] = group[1 + r];
#else
    u64 expert = lc_min_u32(ids[lc_block_y()], LC_N_EXPERT - 1);
    pairs[0] = lc_block_y();
#endif
    LC_UNROLL
    for (u32 r = 0; r < LC_ROWS; r++) {
        // What is not there reads the first pair's row again and is not written.
        u32 pair = pairs[r] == NO_PAIR ? pairs[0] : pairs[r];
        rows[r] = x_per_expert ? pair : pair / n_used;
    }
    float sums[LC_ROWS];
    dot_rows(w + (expert * n_out + o) * lc_row_bytes(n_in), x, n_in, rows, sums);
    LC_UNROLL
    for (u32 r = 0; r < LC_ROWS; r++) {
        float sum = lc_sum_over(sums[r], LC_WAVE);
        if (lc_lane() == 0 && pairs[r] != NO_PAIR) out[(u64)pairs[r] * n_out + o] = sum;
    }
}
#endif
