// Rotary position embedding of the first n_rot elements of each head, in place.
//
//   LC_PAIRING  0: elements 2i and 2i + 1 turn together; 1: elements i and i + n_rot / 2
//
// x [head_dim * n_head, rows]; inv_freq and factors (may be null) [n_rot / 2], n_rot / 2 <= 1024.
// Grid: x covers the heads, heads_per_block each, y the rows. 256 threads a block: they first compute the row's
// cosines and sines, then turn the block's heads. Reference: src/devices/cpu/rope.rs.

#define LC_MAX_PAIRS 1024

// Cosine and sine of an angle. It is reduced to a quarter turn around 0 in F64, for at far positions an F32 has no
// digits left for it; the series' next terms are below 3e-9 there.
LC_DEVICE void lc_cos_sin(double angle, float* cosine, float* sine) {
    const double HALF_PI = 1.57079632679489661923;
    double quarters = angle * 0.63661977236758134308;
    i32 n = (i32)(quarters + (quarters < 0.0 ? -0.5 : 0.5));
    float r = (float)(angle - (double)n * HALF_PI);
    float r2 = r * r;
    float s = lc_fma(r2, 2.7557319e-6f, -1.9841270e-4f);
    s = lc_fma(r2, s, 8.3333333e-3f);
    s = lc_fma(r2, s, -1.6666667e-1f);
    s = lc_fma(r2 * r, s, r);
    float c = lc_fma(r2, -2.7557319e-7f, 2.4801587e-5f);
    c = lc_fma(r2, c, -1.3888889e-3f);
    c = lc_fma(r2, c, 4.1666667e-2f);
    c = lc_fma(r2, c, -0.5f);
    c = lc_fma(r2, c, 1.0f);
    bool swap = (n & 1) != 0;
    float a = swap ? s : c, b = swap ? c : s;
    *cosine = ((n + 1) & 2) ? -a : a;
    *sine = (n & 2) ? -b : b;
}

extern "C" LC_KERNEL(256) rope(
    const u32* step, float* x, const float* inv_freq, const float* factors, u32 n_head, u32 head_dim, u32 n_rot,
    u32 heads_per_block, float magnitude, u32 of_outputs
) {
    __shared__ float cosines[LC_MAX_PAIRS];
    __shared__ float sines[LC_MAX_PAIRS];
    u32 row = lc_block_y();
    u32 n_rows = of_outputs ? step[LC_STEP_N_OUTPUTS] : step[LC_STEP_N_TOKENS];
    if (row >= n_rows) return;
    u32 position = step[LC_STEP_FIRST_POSITION] + (of_outputs ? step[LC_STEP_OUTPUTS_START] : 0) + row;
    u32 n_pairs = n_rot / 2;
    for (u32 i = lc_thread(); i < n_pairs; i += 256) {
        double angle = (double)position * (double)inv_freq[i];
        if (factors) angle /= (double)factors[i];
        float cosine, sine;
        lc_cos_sin(angle, &cosine, &sine);
        cosines[i] = cosine * magnitude;
        sines[i] = sine * magnitude;
    }
    lc_sync();
    u32 first_head = lc_block_x() * heads_per_block;
    if (first_head >= n_head) return;
    u32 n = lc_min_u32(heads_per_block, n_head - first_head) * n_pairs;
    float* heads = x + ((u64)row * n_head + first_head) * head_dim;
    for (u32 i = lc_thread(); i < n; i += 256) {
        u32 pair = i % n_pairs;
        float* head = heads + (u64)(i / n_pairs) * head_dim;
#if LC_PAIRING == 0
        float* at_a = head + 2 * pair;
        float* at_b = at_a + 1;
#else
        float* at_a = head + pair;
        float* at_b = at_a + n_pairs;
#endif
        float a = *at_a, b = *at_b, c = cosines[pair], s = sines[pair];
        *at_a = a * c - b * s;
        *at_b = a * s + b * c;
    }
}
