// Root-mean-square norm over groups of `width`: out = x / sqrt(mean(x^2) + eps) * weight.
//
// x, out [width, n_groups_in_all], out may be x; weight [width]. Every group is summed in one order, whatever the grid.
// CPU reference: src/devices/cpu/norm.rs.

LC_DEVICE float scale_of(float sum, u32 width, float eps) { return 1.0f / lc_sqrt(sum / (float)width + eps); }

// A wave for each group. Grid: (ceil(groups / (256 / LC_WAVE))); block: 256.
extern "C" LC_KERNEL(256) rms_norm_wave(const float* x, const float* weight, u32 width, u32 n_groups, float eps,
                                        float* out) {
    u64 group = (u64)lc_block_x() * (256 / LC_WAVE) + lc_wave();
    // Lanes of a wave that is not needed leave together.
    if (group >= n_groups) return;
    const float* from = x + group * width;
    float sum = 0.0f;
    for (u32 i = lc_lane(); i < width; i += LC_WAVE) sum = lc_fma(from[i], from[i], sum);
    float scale = scale_of(lc_sum_over(sum, LC_WAVE), width, eps);
    for (u32 i = lc_lane(); i < width; i += LC_WAVE) out[group * width + i] = from[i] * scale * weight[i];
}

// A block for each group. Grid: (groups); block: 256.
extern "C" LC_KERNEL(256) rms_norm_block(const float* x, const float* weight, u32 width, u32 n_groups, float eps,
                                         float* out) {
    __shared__ float sums[256 / LC_WAVE];
    u64 group = lc_block_x();
    if (group >= n_groups) return;
    const float* from = x + group * width;
    float sum = 0.0f;
    for (u32 i = lc_thread(); i < width; i += 256) sum = lc_fma(from[i], from[i], sum);
    sum = lc_sum_over(sum, LC_WAVE);
    if (lc_lane() == 0) sums[lc_wave()] = sum;
    lc_sync();
    sum = 0.0f;
    LC_UNROLL
    for (u32 wave = 0; wave < 256 / LC_WAVE; wave++) sum += sums[wave];
    float scale = scale_of(sum, width, eps);
    for (u32 i = lc_thread(); i < width; i += 256) out[group * width + i] = from[i] * scale * weight[i];
}
