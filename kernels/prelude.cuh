// What kernels stand on: the only file with vendor #ifdefs. It is put before every kernel file.
//
// The host gives, as -D options:
//   LC_WAVE   lanes of a wave: 32 or 64
//   LC_GFX    AMD only: the chip's number in hexadecimal (gfx90a is 0x90a, gfx1100 is 0x1100)
// Blocks are one-dimensional. A kernel knows its block size at compile time: it is the number in LC_KERNEL.
//
// No header is included: the run-time compilers of both vendors and a plain clang know different ones.

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#if defined(__HIP__) || defined(__HIPCC_RTC__)
#define LC_AMD 1
#else
#define LC_AMD 0
#endif

#if LC_AMD
// hiprtc brings these words along, a plain clang does not.
#ifndef __global__
#define __global__ __attribute__((global))
#endif
#ifndef __device__
#define __device__ __attribute__((device))
#endif
#ifndef __shared__
#define __shared__ __attribute__((shared))
#endif
// clang's own launch_bounds does not reach the register allocator of these chips: with it, gfx906 has 64 registers.
#ifndef __launch_bounds__
#define __launch_bounds__(n) __attribute__((amdgpu_flat_work_group_size(1, n)))
#endif
#endif

#define LC_DEVICE static __device__ inline __attribute__((always_inline, unused))
// extern "C" LC_KERNEL(256) name(...): a kernel of 256 threads a block.
#define LC_KERNEL(n_threads) __global__ void __launch_bounds__(n_threads)
#define LC_UNROLL _Pragma("unroll")
// Values that the host computes in one place for all: see StepBlock in src/devices/gpu.
#define LC_STEP_N_TOKENS 0
#define LC_STEP_FIRST_POSITION 1
#define LC_STEP_OUTPUTS_START 2
#define LC_STEP_N_OUTPUTS 3
#define LC_STEP_TOKENS 8

// ---- where a thread is ----

#if LC_AMD
LC_DEVICE u32 lc_thread() { return __builtin_amdgcn_workitem_id_x(); }
LC_DEVICE u32 lc_block_x() { return __builtin_amdgcn_workgroup_id_x(); }
LC_DEVICE u32 lc_block_y() { return __builtin_amdgcn_workgroup_id_y(); }
LC_DEVICE u32 lc_block_z() { return __builtin_amdgcn_workgroup_id_z(); }
// Blocks are one-dimensional and a multiple of a wave, so lanes count up with threads.
LC_DEVICE u32 lc_lane() { return __builtin_amdgcn_workitem_id_x() % LC_WAVE; }
#else
LC_DEVICE u32 lc_thread() { return threadIdx.x; }
LC_DEVICE u32 lc_block_x() { return blockIdx.x; }
LC_DEVICE u32 lc_block_y() { return blockIdx.y; }
LC_DEVICE u32 lc_block_z() { return blockIdx.z; }
LC_DEVICE u32 lc_lane() { return threadIdx.x % LC_WAVE; }
#endif
LC_DEVICE u32 lc_wave() { return lc_thread() / LC_WAVE; }

// ---- synchronisation ----

// All threads of the block: shared and global memory written before is seen after.
LC_DEVICE void lc_sync() {
#if LC_AMD
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
#else
    __syncthreads();
#endif
}

// ---- between the lanes of a wave; all lanes must take part ----

LC_DEVICE i32 lc_shuffle_xor_i32(i32 value, u32 mask) {
#if LC_AMD
    return __builtin_amdgcn_ds_bpermute((i32)((lc_lane() ^ mask) * 4), value);
#else
    return __shfl_xor_sync(0xffffffffu, value, mask, 32);
#endif
}

// Of lane `from`.
LC_DEVICE i32 lc_shuffle_i32(i32 value, u32 from) {
#if LC_AMD
    return __builtin_amdgcn_ds_bpermute((i32)(from * 4), value);
#else
    return __shfl_sync(0xffffffffu, value, from, 32);
#endif
}

LC_DEVICE float lc_as_f32(u32 bits) {
#if LC_AMD
    float value;
    __builtin_memcpy(&value, &bits, 4);
    return value;
#else
    return __uint_as_float(bits);
#endif
}

LC_DEVICE u32 lc_as_u32(float value) {
#if LC_AMD
    u32 bits;
    __builtin_memcpy(&bits, &value, 4);
    return bits;
#else
    return __float_as_uint(value);
#endif
}

LC_DEVICE float lc_shuffle_xor(float value, u32 mask) {
    return lc_as_f32((u32)lc_shuffle_xor_i32((i32)lc_as_u32(value), mask));
}

LC_DEVICE float lc_shuffle(float value, u32 from) {
    return lc_as_f32((u32)lc_shuffle_i32((i32)lc_as_u32(value), from));
}

// Over groups of `width` neighbouring lanes (a power of two, at most LC_WAVE); every lane gets the result.
LC_DEVICE float lc_sum_over(float value, u32 width) {
    LC_UNROLL
    for (u32 mask = width / 2; mask > 0; mask /= 2) value += lc_shuffle_xor(value, mask);
    return value;
}

LC_DEVICE i32 lc_sum_over_i32(i32 value, u32 width) {
    LC_UNROLL
    for (u32 mask = width / 2; mask > 0; mask /= 2) value += lc_shuffle_xor_i32(value, mask);
    return value;
}

LC_DEVICE float lc_max(float a, float b) { return a > b ? a : b; }
LC_DEVICE u32 lc_min_u32(u32 a, u32 b) { return a < b ? a : b; }

LC_DEVICE float lc_max_over(float value, u32 width) {
    LC_UNROLL
    for (u32 mask = width / 2; mask > 0; mask /= 2) value = lc_max(value, lc_shuffle_xor(value, mask));
    return value;
}

// ---- arithmetic ----

LC_DEVICE float lc_fma(float a, float b, float c) {
#if LC_AMD
    return __builtin_fmaf(a, b, c);
#else
    return fmaf(a, b, c);
#endif
}

LC_DEVICE float lc_sqrt(float x) {
#if LC_AMD
    return __builtin_sqrtf(x);
#else
    return sqrtf(x);
#endif
}

LC_DEVICE float lc_exp2(float x) {
#if LC_AMD
    return __builtin_exp2f(x);
#else
    return exp2f(x);
#endif
}

#define LC_LOG2_E 1.4426950408889634f

// exp(x) in two steps, so that the error does not grow with x.
LC_DEVICE float lc_exp(float x) {
    float y = x * LC_LOG2_E;
    float rest = lc_fma(x, LC_LOG2_E, -y) + x * 1.925963033500e-8f;
    return lc_exp2(y) * lc_fma(rest, 0.6931471805599453f, 1.0f);
}

LC_DEVICE float lc_round_even(float x) {
#if LC_AMD
    return __builtin_rintf(x);
#else
    return rintf(x);
#endif
}

// a[0]*b[0] + a[1]*b[1] + a[2]*b[2] + a[3]*b[3] + c of signed bytes.
LC_DEVICE i32 lc_dot4(i32 a, i32 b, i32 c) {
#if LC_AMD && LC_GFX >= 0x1100
    return __builtin_amdgcn_sudot4(true, a, true, b, c, false);
#elif LC_AMD && (LC_GFX == 0x906 || LC_GFX == 0x908 || LC_GFX == 0x90a || (LC_GFX >= 0x940 && LC_GFX <= 0x95f) || LC_GFX == 0x1011 || LC_GFX == 0x1012 || (LC_GFX >= 0x1030 && LC_GFX < 0x1100))
    return __builtin_amdgcn_sdot4(a, b, c, false);
#elif !LC_AMD && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 610
    return __dp4a(a, b, c);
#else
    LC_UNROLL
    for (u32 i = 0; i < 4; i++) c += (i32)(i8)(a >> (8 * i)) * (i32)(i8)(b >> (8 * i));
    return c;
#endif
}

// ---- half precision ----

LC_DEVICE float lc_f16_to_f32(u16 bits) {
#if LC_AMD
    _Float16 half;
    __builtin_memcpy(&half, &bits, 2);
    return (float)half;
#else
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#endif
}

// To the nearest, ties to even.
LC_DEVICE u16 lc_f32_to_f16(float value) {
#if LC_AMD
    _Float16 half = (_Float16)value;
    u16 bits;
    __builtin_memcpy(&bits, &half, 2);
    return bits;
#else
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#endif
}

LC_DEVICE float lc_bf16_to_f32(u16 bits) { return lc_as_f32((u32)bits << 16); }

// ---- memory ----

// Little-endian words at any even or odd address: block formats are not aligned to words.
LC_DEVICE u16 lc_load_u16(const u8* p) { return (u16)(p[0] | p[1] << 8); }
LC_DEVICE u16 lc_load_u16_a2(const u8* p) { return *(const u16*)p; }
LC_DEVICE u32 lc_load_u32_a2(const u8* p) { return (u32)((const u16*)p)[0] | (u32)((const u16*)p)[1] << 16; }
LC_DEVICE u32 lc_load_u32_a4(const u8* p) { return *(const u32*)p; }

LC_DEVICE u32 lc_atomic_add_u32(u32* at, u32 value) {
#if LC_AMD
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
#else
    return atomicAdd(at, value);
#endif
}
