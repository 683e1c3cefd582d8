// The sum of the chosen experts' results: out[:, r] = add[:, r] + sum over u of weights[u, r] * x[:, u, r].
//
// x [width, n_used, rows]; weights [n_used, rows]; add, out [width, rows], out may be add. Grid: (ceil(width / 256), rows);
// block: 256. CPU reference: src/devices/cpu/moe.rs.

extern "C" LC_KERNEL(256) expert_combine(const float* x, const float* weights, const float* add, u32 width, u32 n_used,
                                         float* out) {
    u32 i = lc_block_x() * 256 + lc_thread();
    if (i >= width) return;
    u64 row = lc_block_y();
    float sum = add[row * width + i];
    for (u32 u = 0; u < n_used; u++) {
        u64 pair = row * n_used + u;
        sum = lc_fma(weights[pair], x[pair * width + i], sum);
    }
    out[row * width + i] = sum;
}
