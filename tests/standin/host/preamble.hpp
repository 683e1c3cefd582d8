// Put before every program that the stand-in's hiprtc compiles: gives a host compiler the words of a HIP device
// compiler. Includes nothing, so that it takes no names from the program; its own names begin with __lc_.
#define __HIP__ 1
#define __HIPCC__ 1
#define __HIPCC_RTC__ 1
#define __HIP_PLATFORM_AMD__ 1
#define __HIP_DEVICE_COMPILE__ 1
#define __AMDGCN__ 1

// The scan for kernels looks for this mark, and replaces it.
#define __global__ __lc_mark_global__
#define __device__
#define __host__
#define __constant__ static const
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
// Replaced like the mark above, by a section for each kernel.
#define __shared__ __lc_mark_shared__

#define __HIP_MEMORY_SCOPE_SINGLETHREAD 1
#define __HIP_MEMORY_SCOPE_WAVEFRONT 2
#define __HIP_MEMORY_SCOPE_WORKGROUP 3
#define __HIP_MEMORY_SCOPE_AGENT 4
#define __HIP_MEMORY_SCOPE_SYSTEM 5

// Where the running thread is; the runtime writes it at every switch. The layout is that of simt.hpp.
struct __lc_State {
    unsigned thread[3], block[3], block_dim[3], grid_dim[3], lane, wave_size;
};
static __attribute__((used)) __lc_State __lc_state;
extern "C" __attribute__((visibility("default"), used)) __lc_State* __lc_get_state() { return &__lc_state; }

// Shared memory that a kernel uses: what its own text declares, and what functions declare that any kernel may call.
struct __lc_Range {
    unsigned char *start, *stop;
};
extern "C" __attribute__((visibility("hidden"), weak)) unsigned char __start_lcshared[], __stop_lcshared[];

// A thread's place never changes while it runs, hence `const`: the optimiser may keep it across anything.
#define __LC_PLACE(name, field) \
    static __attribute__((const, noinline, unused)) unsigned name() { return __lc_state.field; }
__LC_PLACE(__lc_thread_x, thread[0])
__LC_PLACE(__lc_thread_y, thread[1])
__LC_PLACE(__lc_thread_z, thread[2])
__LC_PLACE(__lc_block_x, block[0])
__LC_PLACE(__lc_block_y, block[1])
__LC_PLACE(__lc_block_z, block[2])
__LC_PLACE(__lc_block_dim_x, block_dim[0])
__LC_PLACE(__lc_block_dim_y, block_dim[1])
__LC_PLACE(__lc_block_dim_z, block_dim[2])
__LC_PLACE(__lc_grid_dim_x, grid_dim[0])
__LC_PLACE(__lc_grid_dim_y, grid_dim[1])
__LC_PLACE(__lc_grid_dim_z, grid_dim[2])
__LC_PLACE(__lc_lane, lane)
__LC_PLACE(__lc_wave_size, wave_size)
#undef __LC_PLACE

// In libamdhip64. `convergent`: the optimiser may neither copy such a call into branches nor move it across them.
#define __LC_RT extern "C" __attribute__((convergent))
__LC_RT void lc_rt_barrier();
__LC_RT void lc_rt_wave_barrier();
__LC_RT int lc_rt_bpermute(int byte_index, int value);
__LC_RT int lc_rt_permute(int byte_index, int value);
__LC_RT int lc_rt_first_lane(int value);
__LC_RT int lc_rt_read_lane(int value, int lane);
__LC_RT unsigned long long lc_rt_ballot(int predicate);
#undef __LC_RT

static inline int __lc_mbcnt(unsigned long long mask, unsigned first, int base) {
    unsigned long long below = (1ull << __lc_lane()) - 1;
    return base + __builtin_popcount((unsigned)((mask & below) >> first));
}
static inline int __lc_clamped(long long sum, bool clamp) {
    if (clamp) sum = sum > 2147483647 ? 2147483647 : sum < -2147483647 - 1 ? -2147483647 - 1 : sum;
    return (int)sum;
}
static inline int __lc_dot4(bool a_signed, int a, bool b_signed, int b, int c, bool clamp) {
    long long sum = c;
    for (int i = 0; i < 4; i++) {
        int x = (a >> (8 * i)) & 255, y = (b >> (8 * i)) & 255;
        if (a_signed) x = (signed char)x;
        if (b_signed) y = (signed char)y;
        sum += x * y;
    }
    return __lc_clamped(sum, clamp);
}
static inline unsigned __lc_perm(unsigned high, unsigned low, unsigned selector) {
    unsigned long long bytes = (unsigned long long)high << 32 | low;
    unsigned out = 0;
    for (int i = 0; i < 4; i++) {
        unsigned s = (selector >> (8 * i)) & 255;
        unsigned byte = s < 8 ? (unsigned)(bytes >> (8 * s)) & 255 : s >= 13 ? 255 : s == 12 ? 0 : (bytes >> (16 * (s - 8) + 15) & 1) ? 255 : 0;
        out |= byte << (8 * i);
    }
    return out;
}
static inline int __lc_sbfe(int value, unsigned start, unsigned width) {
    start &= 31, width &= 31;
    return width == 0 ? 0 : start + width >= 32 ? value >> start : (int)((unsigned)value << (32 - start - width)) >> (32 - width);
}
static inline unsigned __lc_ubfe(unsigned value, unsigned start, unsigned width) {
    return (value >> (start & 31)) & ((1u << (width & 31)) - 1);
}

#define __builtin_amdgcn_workitem_id_x() __lc_thread_x()
#define __builtin_amdgcn_workitem_id_y() __lc_thread_y()
#define __builtin_amdgcn_workitem_id_z() __lc_thread_z()
#define __builtin_amdgcn_workgroup_id_x() __lc_block_x()
#define __builtin_amdgcn_workgroup_id_y() __lc_block_y()
#define __builtin_amdgcn_workgroup_id_z() __lc_block_z()
#define __builtin_amdgcn_workgroup_size_x() ((unsigned short)__lc_block_dim_x())
#define __builtin_amdgcn_workgroup_size_y() ((unsigned short)__lc_block_dim_y())
#define __builtin_amdgcn_workgroup_size_z() ((unsigned short)__lc_block_dim_z())
#define __builtin_amdgcn_grid_size_x() (__lc_grid_dim_x() * __lc_block_dim_x())
#define __builtin_amdgcn_grid_size_y() (__lc_grid_dim_y() * __lc_block_dim_y())
#define __builtin_amdgcn_grid_size_z() (__lc_grid_dim_z() * __lc_block_dim_z())
#define __builtin_amdgcn_wavefrontsize() __lc_wave_size()
#define __builtin_amdgcn_s_barrier() lc_rt_barrier()
#define __builtin_amdgcn_wave_barrier() lc_rt_wave_barrier()
#define __builtin_amdgcn_fence(order, ...) __atomic_thread_fence(order)
#define __builtin_amdgcn_sched_barrier(mask) ((void)0)
#define __builtin_amdgcn_s_sleep(n) ((void)0)
#define __builtin_amdgcn_ds_bpermute(byte_index, value) lc_rt_bpermute(byte_index, value)
#define __builtin_amdgcn_ds_permute(byte_index, value) lc_rt_permute(byte_index, value)
#define __builtin_amdgcn_readfirstlane(value) lc_rt_first_lane(value)
#define __builtin_amdgcn_readlane(value, lane) lc_rt_read_lane(value, lane)
#define __builtin_amdgcn_ballot_w32(predicate) ((unsigned)lc_rt_ballot(predicate))
#define __builtin_amdgcn_ballot_w64(predicate) lc_rt_ballot(predicate)
#define __builtin_amdgcn_mbcnt_lo(mask, base) __lc_mbcnt((unsigned)(mask), 0, base)
#define __builtin_amdgcn_mbcnt_hi(mask, base) __lc_mbcnt((unsigned long long)(unsigned)(mask) << 32, 32, base)
#define __builtin_amdgcn_sdot4(a, b, c, clamp) __lc_dot4(true, a, true, b, c, clamp)
#define __builtin_amdgcn_udot4(a, b, c, clamp) ((unsigned)__lc_dot4(false, (int)(a), false, (int)(b), (int)(c), false))
#define __builtin_amdgcn_sudot4(a_signed, a, b_signed, b, c, clamp) __lc_dot4(a_signed, a, b_signed, b, c, clamp)
#define __builtin_amdgcn_perm(high, low, selector) __lc_perm(high, low, selector)
#define __builtin_amdgcn_sbfe(value, start, width) __lc_sbfe(value, start, width)
#define __builtin_amdgcn_ubfe(value, start, width) __lc_ubfe(value, start, width)
#define __builtin_amdgcn_rcpf(x) (1.0f / (x))
#define __builtin_amdgcn_rsqf(x) (1.0f / __builtin_sqrtf(x))
#define __builtin_amdgcn_sqrtf(x) __builtin_sqrtf(x)
#define __builtin_amdgcn_exp2f(x) __builtin_exp2f(x)
#define __builtin_amdgcn_logf(x) __builtin_log2f(x)
#define __builtin_amdgcn_fmed3f(a, b, c) __builtin_fmaxf(__builtin_fminf(a, b), __builtin_fminf(__builtin_fmaxf(a, b), c))

#define __hip_atomic_load(p, order, scope) __atomic_load_n(p, order)
#define __hip_atomic_store(p, v, order, scope) __atomic_store_n(p, v, order)
#define __hip_atomic_exchange(p, v, order, scope) __atomic_exchange_n(p, v, order)
#define __hip_atomic_fetch_add(p, v, order, scope) __atomic_fetch_add(p, v, order)
#define __hip_atomic_fetch_and(p, v, order, scope) __atomic_fetch_and(p, v, order)
#define __hip_atomic_fetch_or(p, v, order, scope) __atomic_fetch_or(p, v, order)
#define __hip_atomic_fetch_xor(p, v, order, scope) __atomic_fetch_xor(p, v, order)
#define __hip_atomic_fetch_min(p, v, order, scope) __atomic_fetch_min(p, v, order)
#define __hip_atomic_fetch_max(p, v, order, scope) __atomic_fetch_max(p, v, order)
#define __hip_atomic_compare_exchange_strong(p, e, v, s, f, scope) __atomic_compare_exchange_n(p, e, v, false, s, f)
#define __hip_atomic_compare_exchange_weak(p, e, v, s, f, scope) __atomic_compare_exchange_n(p, e, v, true, s, f)

// Calls a kernel of any signature with HIP's array of pointers to arguments; and the arguments' sizes, count first.
template <class T, T... I>
struct __lc_Indices {};
template <class... A, int... I>
static inline __attribute__((always_inline)) void __lc_call_with(void (*kernel)(A...), void** p, __lc_Indices<int, I...>) {
    kernel(*(A*)p[I]...);
}
template <class... A>
static inline __attribute__((always_inline)) void __lc_call(void (*kernel)(A...), void** p) {
    __lc_call_with(kernel, p, __make_integer_seq<__lc_Indices, int, sizeof...(A)>{});
}
template <class... A>
static const unsigned* __lc_sizes(void (*)(A...)) {
    static const unsigned sizes[] = {sizeof...(A), sizeof(A)...};
    return sizes;
}
