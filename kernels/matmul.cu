// Products of rows with one matrix: out[o, r] = sum over i of x[i, r] * w[i, o], plus bias[o], plus add[o, r].
//
// w [n_in, n_out] of LC_DTYPE in the file's layout; x [n_in, rows]; out, add [n_out, rows], add may be out; bias
// [n_out]; bias and add may be null. CPU reference: src/devices/cpu/product.rs.
//
// Few rows: up to LC_ROWS of them at once, a wave for each output, as in dot.cuh. Many rows: tiles in F32. Every sum has
// one order, whatever the grid.

// ---- few rows ----

#ifdef LC_ROWS

// Grid: (ceil(n_out / (256 / LC_WAVE))); block: 256.
extern "C" LC_KERNEL(256) matvec(const u8* w, const void* x, u32 n_in, u32 n_out, u32 n_rows, const float* bias,
                                 const float* add, float* out) {
    u32 o = lc_block_x() * (256 / LC_WAVE) + lc_wave();
    // Lanes of a wave that is not needed leave together.
    if (o >= n_out) return;
    float sums[LC_ROWS];
    u32 rows[LC_ROWS];
    // Rows beyond the last read the last one again and are not written.
    LC_UNROLL
    for (u32 r = 0; r < LC_ROWS; r++) rows[r] = lc_min_u32(r, n_rows - 1);
    dot_rows(w + o * lc_row_bytes(n_in), x, n_in, rows, sums);
    LC_UNROLL
    for (u32 r = 0; r < LC_ROWS; r++) {
        float sum = lc_sum_over(sums[r], LC_WAVE);
        if (lc_lane() == 0 && r < n_rows) {
            u64 at = (u64)r * n_out + o;
            if (bias) sum += bias[o];
            if (add) sum += add[at];
            out[at] = sum;
        }
    }
}

// ---- many rows ----

#else

#define TILE 64
#define DEPTH 32

// A tile of 64 outputs and 64 rows. Grid: (ceil(n_out / 64), ceil(n_rows / 64)); block: 256.
extern "C" LC_KERNEL(256) matmul(const u8* w, const float* x, u32 n_in, u32 n_out, u32 n_rows, const float* bias,
                                 const float* add, float* out) {
    // Columns are padded, so that neither filling nor reading meets one bank twice.
    __shared__ float ws[DEPTH][TILE + 4];
    __shared__ float xs[DEPTH][TILE + 4];
    u32 t = lc_thread();
    u32 first_out = lc_block_x() * TILE, first_row = lc_block_y() * TILE;
    // Filling: 8 elements of one output, and of one row. Threads side by side take different ones.
    u32 line = t % TILE, part = t / TILE;
    u32 fill_out = lc_min_u32(first_out + line, n_out - 1);
    u64 fill_row = lc_min_u32(first_row + line, n_rows - 1);
    const u8* w_line = w + fill_out * lc_row_bytes(n_in);
    const float* x_line = x + fill_row * n_in;
    // Computing: 4 outputs and 4 rows.
    u32 o4 = t % 16 * 4, r4 = t / 16 * 4;
    float sums[4][4];
    LC_UNROLL
    for (u32 r = 0; r < 4; r++) {
        LC_UNROLL
        for (u32 o = 0; o < 4; o++) sums[r][o] = 0.0f;
    }
    for (u32 start = 0; start < n_in; start += DEPTH) {
        u32 at = start + part * 8;
        float values[8];
        if (at + 8 <= n_in) {
            lc_dequantise8(w_line, at / 8, values);
        } else {
            // Only rows of numbers end within a group.
            LC_UNROLL
            for (u32 i = 0; i < 8; i++) values[i] = at + i < n_in ? lc_dequantise(w_line, at + i) : 0.0f;
        }
        LC_UNROLL
        for (u32 i = 0; i < 8; i++) {
            ws[part * 8 + i][line] = values[i];
            xs[part * 8 + i][line] = at + i < n_in ? x_line[at + i] : 0.0f;
        }
        lc_sync();
        LC_UNROLL
        for (u32 k = 0; k < DEPTH; k++) {
            float wv[4], xv[4];
            LC_UNROLL
            for (u32 i = 0; i < 4; i++) {
                wv[i] = ws[k][o4 + i];
                xv[i] = xs[k][r4 + i];
            }
            LC_UNROLL
            for (u32 r = 0; r < 4; r++) {
                LC_UNROLL
                for (u32 o = 0; o < 4; o++) sums[r][o] = lc_fma(wv[o], xv[r], sums[r][o]);
            }
        }
        lc_sync();
    }
    LC_UNROLL
    for (u32 r = 0; r < 4; r++) {
        LC_UNROLL
        for (u32 o = 0; o < 4; o++) {
            u32 row = first_row + r4 + r, column = first_out + o4 + o;
            if (row < n_rows && column < n_out) {
                u64 at = (u64)row * n_out + column;
                float sum = sums[r][o];
                if (bias) sum += bias[column];
                if (add) sum += add[at];
                out[at] = sum;
            }
        }
    }
}
#endif
