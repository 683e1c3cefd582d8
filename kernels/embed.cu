// Embedding: out[:, r] = table[:, token r], decoded to F32.
//
// table [n_embd, n_vocab] of LC_DTYPE in the file's layout; out [n_embd, rows].
// Grid: (ceil(n_embd / 256), rows); block: 256. CPU reference: src/devices/cpu/embed.rs.

extern "C" LC_KERNEL(256) embed(const u32* step, const u8* table, u32 n_embd, u32 n_vocab, float* out) {
    u32 i = lc_block_x() * 256 + lc_thread();
    if (i >= n_embd) return;
    u64 row = lc_block_y();
    // A token that the table lacks is the host's mistake; it must not become a read outside it.
    u64 token = lc_min_u32(step[LC_STEP_TOKENS + row], n_vocab - 1);
    u64 row_bytes = (u64)(n_embd / LC_BLOCK_LEN) * LC_BLOCK_BYTES;
    out[row * n_embd + i] = lc_dequantise(table + token * row_bytes, i);
}
