// Chooses n_used of LC_N_EXPERT experts for each row: the largest of probability + bias, ties to the lower index, in
// falling order; their weights are the probabilities without bias, divided by their sum where asked, times scale.
//
// logits [LC_N_EXPERT, rows], bias [LC_N_EXPERT] or null, ids and weights [n_used, rows]. LC_SIGMOID: 1 for a sigmoid
// of each logit, 0 for a softmax over all. Grid: (rows); block: 64. CPU reference: src/devices/cpu/moe.rs.

#define N_THREADS 64

// Whether merit `a` of expert `i` goes before merit `b` of expert `j`.
LC_DEVICE bool goes_before(float a, u32 i, float b, u32 j) { return a > b || (a == b && i < j); }

extern "C" LC_KERNEL(N_THREADS) route(const float* logits, const float* bias, u32 n_used, u32 normalise, float scale,
                                      u32* ids, float* weights) {
    __shared__ float probabilities[LC_N_EXPERT];
    __shared__ float merits[LC_N_EXPERT];
    __shared__ float best_merits[N_THREADS];
    __shared__ u32 best_ids[N_THREADS];
    u32 t = lc_thread();
    u64 row = lc_block_x();
    const float* from = logits + row * LC_N_EXPERT;
#if LC_SIGMOID
    for (u32 i = t; i < LC_N_EXPERT; i += N_THREADS) probabilities[i] = 1.0f / (1.0f + lc_exp(-from[i]));
#else
    float top = -3.402823466e38f;
    for (u32 i = t; i < LC_N_EXPERT; i += N_THREADS) top = lc_max(from[i], top);
    best_merits[t] = top;
    lc_sync();
    for (u32 i = 0; i < N_THREADS; i++) top = lc_max(best_merits[i], top);
    lc_sync();
    float sum = 0.0f;
    for (u32 i = t; i < LC_N_EXPERT; i += N_THREADS) {
        float p = lc_exp(from[i] - top);
        probabilities[i] = p;
        sum += p;
    }
    best_merits[t] = sum;
    lc_sync();
    sum = 0.0f;
    for (u32 i = 0; i < N_THREADS; i++) sum += best_merits[i];
    lc_sync();
    for (u32 i = t; i < LC_N_EXPERT; i += N_THREADS) probabilities[i] /= sum;
#endif
    for (u32 i = t; i < LC_N_EXPERT; i += N_THREADS) {
        float merit = probabilities[i] + (bias ? bias[i] : 0.0f);
        // NaN is chosen last.
        merits[i] = merit == merit ? merit : -3.402823466e38f;
    }
    float total = 0.0f;
    for (u32 u = 0; u < n_used; u++) {
        // Each thread looks at experts that only it has written or struck out.
        float merit = 0.0f;
        u32 best = LC_N_EXPERT;
        for (u32 i = t; i < LC_N_EXPERT; i += N_THREADS) {
            float m = merits[i];
            // What is taken is NaN.
            if (m == m && (best == LC_N_EXPERT || m > merit)) {
                merit = m;
                best = i;
            }
        }
        best_merits[t] = merit;
        best_ids[t] = best;
        lc_sync();
        best = LC_N_EXPERT;
        for (u32 i = 0; i < N_THREADS; i++) {
            u32 id = best_ids[i];
            if (id < LC_N_EXPERT && (best == LC_N_EXPERT || goes_before(best_merits[i], id, merit, best))) {
                merit = best_merits[i];
                best = id;
            }
        }
        if (best >= LC_N_EXPERT) best = 0;
        if (best % N_THREADS == t) merits[best] = lc_as_f32(0x7fc00000u);
        float p = probabilities[best];
        total += p;
        if (t == 0) {
            ids[row * n_used + u] = best;
            weights[row * n_used + u] = p;
        }
        lc_sync();
    }
    // All probabilities may be 0.
    float factor = normalise && total > 0.0f ? scale / total : scale;
    // Thread 0 alone has written them, in this launch.
    if (t == 0) {
        for (u32 u = 0; u < n_used; u++) weights[row * n_used + u] *= factor;
    }
}
