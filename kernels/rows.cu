// What works on rows element by element.
//
// Grid: (ceil(width / 256), rows); block: 256. CPU references: src/devices/cpu/{embed,activation}.rs.

// out[:, r] = x[:, outputs_start + r]. x [width, n_tokens], out [width, rows].
extern "C" LC_KERNEL(256) take_outputs(const u32* step, const float* x, u32 width, float* out) {
    u32 i = lc_block_x() * 256 + lc_thread();
    if (i >= width) return;
    u64 row = lc_block_y();
    out[row * width + i] = x[(row + step[LC_STEP_OUTPUTS_START]) * width + i];
}

// out = silu(gate) * up, all [width, rows]; out may be gate or up.
extern "C" LC_KERNEL(256) silu_gate(const float* gate, const float* up, u32 width, float* out) {
    u32 i = lc_block_x() * 256 + lc_thread();
    if (i >= width) return;
    u64 at = (u64)lc_block_y() * width + i;
    float x = gate[at];
    out[at] = x / (1.0f + lc_exp(-x)) * up[at];
}
