// Tests the stand-in as a program would use it: through dlopen. Cases that set environment variables run in a process
// of their own: the variables are read once.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <string>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vector>

#include "selftest_hip.hpp"

namespace {

void check(bool ok, const char* what, int line) {
    if (ok) return;
    fprintf(stderr, "selftest.cpp:%d: wrong: %s\n", line, what);
    _exit(1);
}
#define CHECK(condition) check((condition), #condition, __LINE__)
#define OK(call) check_ok((call), #call, __LINE__)
void check_ok(int error, const char* what, int line) {
    if (error == 0) return;
    fprintf(stderr, "selftest.cpp:%d: error %d from %s\n", line, error, what);
    _exit(1);
}

double now_s(clockid_t clock = CLOCK_MONOTONIC) {
    timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

const char* kernels = R"(
#define LANE (__builtin_amdgcn_workitem_id_x() % LC_WAVE)
typedef unsigned int u32;
static __device__ inline u32 place() { return __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x(); }

extern "C" __global__ void __launch_bounds__(256) add(const float* __restrict__ a, const float* b, float* c, u32 n, float scale) {
    u32 i = place();
    if (i < n) c[i] = __builtin_fmaf(a[i], scale, b[i]);
}

// Sums the block through shared memory and waves.
extern "C" __global__ void __launch_bounds__(256) block_sum(const float* x, float* sums) {
    __shared__ float part[256 / LC_WAVE];
    float v = x[place()];
    for (u32 mask = LC_WAVE / 2; mask > 0; mask /= 2) {
        int other = __builtin_amdgcn_ds_bpermute((int)((LANE ^ mask) * 4), __builtin_bit_cast(int, v));
        v += __builtin_bit_cast(float, other);
    }
    u32 t = __builtin_amdgcn_workitem_id_x();
    if (LANE == 0) part[t / LC_WAVE] = v;
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    if (t == 0) {
        float sum = 0;
        for (u32 i = 0; i < 256 / LC_WAVE; i++) sum += part[i];
        sums[__builtin_amdgcn_workgroup_id_x()] = sum;
    }
}

extern "C" __global__ void waves(u32* out) {
    u32 t = __builtin_amdgcn_workitem_id_x();
#if LC_WAVE == 32
    unsigned long long odd = __builtin_amdgcn_ballot_w32(t & 1);
#else
    unsigned long long odd = __builtin_amdgcn_ballot_w64(t & 1);
#endif
    out[t * 4] = (u32)__builtin_popcountll(odd);
    out[t * 4 + 1] = (u32)__builtin_amdgcn_readfirstlane((int)t);
    out[t * 4 + 2] = (u32)__builtin_amdgcn_mbcnt_hi(~0u, (u32)__builtin_amdgcn_mbcnt_lo(~0u, 0));
    out[t * 4 + 3] = (u32)__builtin_amdgcn_sudot4(true, 0x01ff02fe, true, 0x03040506, 7, false);
}

// Lanes from 16 on return early: the rest of the wave goes on.
extern "C" __global__ void early(u32* out) {
    if (LANE >= 16) return;
    out[__builtin_amdgcn_workitem_id_x()] = (u32)__builtin_amdgcn_ds_bpermute((int)((LANE ^ 1) * 4), (int)LANE);
}

extern "C" __global__ void count(u32* total, u32 by) {
    __hip_atomic_fetch_add(total, by, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __atomic_fetch_add(total + 1, 1u, __ATOMIC_RELAXED);
}

extern "C" __global__ void chain(volatile u32* p, u32 n) {
    for (u32 i = 0; i < n; i++) p[0] = p[0] * 3 + 1;
}

extern "C" __global__ void outside(float* p, long long at) { if (place() == 77) p[at] = 1; }

extern "C" __global__ void array_index(u32* out, u32 at) {
    __shared__ u32 x[256];
    u32 t = __builtin_amdgcn_workitem_id_x();
    x[t + at] = t;
    __builtin_amdgcn_s_barrier();
    out[t] = x[t];
}

extern "C" __global__ void deep(u32* out) {
    u32 t = __builtin_amdgcn_workitem_id_x();
    volatile u32 x[20000];
    for (u32 i = 0; i < 20000; i++) x[i] = i;
    out[t] = x[t];
}

extern "C" __global__ void misaligned(const unsigned char* p, u32* out, u32 at) { out[place()] = *(const u32*)(p + at); }

extern "C" __global__ void shift(u32* out, u32 by) { out[place()] = 1u << by; }

extern "C" __global__ void divide(u32* out, u32 by) { out[place()] = 7 / by; }

// Shared memory of a function that several kernels call.
static __device__ float turned(float v) {
    __shared__ float x[256];
    u32 t = __builtin_amdgcn_workitem_id_x();
    if (t != 5) x[t] = v;
    __builtin_amdgcn_s_barrier();
    return x[255 - t];
}
extern "C" __global__ void turn(float* out) { out[place()] = turned((float)__builtin_amdgcn_workitem_id_x()); }

extern "C" __global__ void uninitialised_shared(float* out) {
    __shared__ float x[256];
    u32 t = __builtin_amdgcn_workitem_id_x();
    if (t != 5) x[t] = 1;
    __builtin_amdgcn_s_barrier();
    out[place()] = x[t];
}

// Reads its neighbour's value without a barrier.
extern "C" __global__ void race(u32* out) {
    __shared__ u32 x[256];
    u32 t = __builtin_amdgcn_workitem_id_x();
    x[t] = t;
    out[t] = x[(t + 255) % 256];
    __builtin_amdgcn_s_barrier();
}

extern "C" __global__ void diverged_barrier(u32* out) {
    u32 t = __builtin_amdgcn_workitem_id_x();
    if (t < 40) __builtin_amdgcn_s_barrier();
    else out[t] = (u32)__builtin_amdgcn_ds_bpermute(0, (int)t);
    out[t] = 1;
}

extern "C" __global__ void diverged_wave(u32* out) {
    u32 t = __builtin_amdgcn_workitem_id_x();
    if (LANE < 7) out[t] = (u32)__builtin_amdgcn_readfirstlane((int)t);
    else out[t] = (u32)__builtin_amdgcn_ds_bpermute(0, (int)t);
}

extern "C" __global__ void two_barriers(u32* out) {
    u32 t = __builtin_amdgcn_workitem_id_x();
    if (t & 1) { __builtin_amdgcn_s_barrier(); out[t] = 1; }
    else { out[t] = 2; __builtin_amdgcn_s_barrier(); }
}

extern "C" __global__ void halves(unsigned short* out, float x) {
    _Float16 h = (_Float16)x;
    _Float16 sum = h + h * h;
    __builtin_memcpy(out, &sum, 2);
}

extern "C" __global__ void shuffles(float* out, u32 n) {
    float v = (float)LANE;
    for (u32 i = 0; i < n; i++) {
        int other = __builtin_amdgcn_ds_bpermute((int)((LANE ^ 1) * 4), __builtin_bit_cast(int, v));
        v += __builtin_bit_cast(float, other) * 0.5f;
    }
    out[place()] = v;
}

extern "C" __global__ void where(u32* out) {
    u32 x = __builtin_amdgcn_workgroup_id_x(), y = __builtin_amdgcn_workgroup_id_y(), z = __builtin_amdgcn_workgroup_id_z();
    out[(z * 3 + y) * 5 + x] = x + 10 * y + 100 * z;
}
)";

std::vector<char> compile(const Hip& h, const char* source, const std::string& arch, int wave) {
    void* program = nullptr;
    OK(h.hiprtcCreateProgram(&program, source, "test.cu", 0, nullptr, nullptr));
    std::string target = "--gpu-architecture=" + arch, define = "-DLC_WAVE=" + std::to_string(wave);
    const char* options[] = {target.c_str(), define.c_str(), "-O3", "-ffast-math", "-std=c++17"};
    int result = h.hiprtcCompileProgram(program, 5, options);
    size_t bytes = 0;
    OK(h.hiprtcGetProgramLogSize(program, &bytes));
    std::vector<char> log(bytes);
    OK(h.hiprtcGetProgramLog(program, log.data()));
    if (result) fprintf(stderr, "%s", log.data());
    OK(result);
    OK(h.hiprtcGetCodeSize(program, &bytes));
    std::vector<char> code(bytes);
    OK(h.hiprtcGetCode(program, code.data()));
    OK(h.hiprtcDestroyProgram(&program));
    return code;
}

struct Gpu {
    const Hip& h;
    int wave;
    void *module, *stream;

    explicit Gpu(const Hip& hip) : h(hip) {
        OK(h.hipInit(0));
        OK(h.hipSetDevice(0));
        OK(h.hipDeviceGetAttribute(&wave, 87, 0));
        OK(h.hipModuleLoadData(&module, compile(h, kernels, wave == 64 ? "gfx90a" : "gfx1100", wave).data()));
        OK(h.hipStreamCreateWithFlags(&stream, 1));
    }
    void* alloc(size_t bytes) const {
        void* p = nullptr;
        OK(h.hipMalloc(&p, bytes));
        return p;
    }
    template <class T>
    void* put(const std::vector<T>& values) const {
        void* p = alloc(values.size() * sizeof(T));
        OK(h.hipMemcpyHtoDAsync(p, (void*)values.data(), values.size() * sizeof(T), stream));
        return p;
    }
    template <class T>
    std::vector<T> get(void* p, size_t n) const {
        std::vector<T> values(n);
        OK(h.hipMemcpyDtoHAsync(values.data(), p, n * sizeof(T), stream));
        OK(h.hipStreamSynchronize(stream));
        return values;
    }
    template <class... A>
    int launch_on(void* s, const char* name, unsigned blocks, unsigned threads, A... args) const {
        void* f = nullptr;
        OK(h.hipModuleGetFunction(&f, module, name));
        void* params[] = {&args...};
        return h.hipModuleLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, s, params, nullptr);
    }
    template <class... A>
    int launch(const char* name, unsigned blocks, unsigned threads, A... args) const {
        return launch_on(stream, name, blocks, threads, args...);
    }
    int sync() const { return h.hipStreamSynchronize(stream); }
};

void computes(const Hip& h) {
    Gpu g(h);
    const unsigned n = 1000;
    std::vector<float> a(n), b(n);
    for (unsigned i = 0; i < n; i++) a[i] = (float)i, b[i] = (float)i * 0.5f;
    void *pa = g.put(a), *pb = g.put(b), *pc = g.alloc(n * 4);
    OK(g.launch("add", 4, 256, pa, pb, pc, n, 2.0f));
    auto c = g.get<float>(pc, n);
    for (unsigned i = 0; i < n; i++) CHECK(c[i] == (float)i * 2.5f);
    std::vector<float> x(256 * 50);
    for (size_t i = 0; i < x.size(); i++) x[i] = (float)(i % 97);
    void *px = g.put(x), *ps = g.alloc(50 * 4);
    OK(g.launch("block_sum", 50, 256, px, ps));
    auto sums = g.get<float>(ps, 50);
    for (size_t i = 0; i < 50; i++) {
        float sum = 0;
        for (size_t j = 0; j < 256; j++) sum += x[i * 256 + j];
        CHECK(sums[i] == sum);
    }
    for (void* p : {pa, pb, pc, px, ps}) OK(h.hipFree(p));
}

void wave_functions(const Hip& h) {
    Gpu g(h);
    unsigned wave = (unsigned)g.wave;
    void* out = g.alloc(256 * 16);
    OK(g.launch("waves", 1, 256, out));
    auto v = g.get<uint32_t>(out, 1024);
    for (unsigned t = 0; t < 256; t++) {
        CHECK(v[t * 4] == wave / 2);
        CHECK(v[t * 4 + 1] == t / wave * wave);
        CHECK(v[t * 4 + 2] == t % wave);
        // 1*3 + -1*4 + 2*5 + -2*6 + 7
        CHECK((int)v[t * 4 + 3] == 4);
    }
    OK(g.launch("early", 1, 256, out));
    v = g.get<uint32_t>(out, 256);
    for (unsigned t = 0; t < 256; t++)
        if (t % wave < 16) CHECK(v[t] == ((t % wave) ^ 1));
    void* half = g.alloc(2);
    OK(g.launch("halves", 1, 1, half, 1.5f));
    CHECK(g.get<uint16_t>(half, 1)[0] == 0x4380);  // 3.75
}

void grids(const Hip& h) {
    Gpu g(h);
    void* out = g.alloc(2 * 3 * 5 * 4);
    void* f;
    OK(h.hipModuleGetFunction(&f, g.module, "where"));
    void* params[] = {&out};
    OK(h.hipModuleLaunchKernel(f, 5, 3, 2, 1, 1, 1, 0, g.stream, params, nullptr));
    auto v = g.get<uint32_t>(out, 30);
    for (unsigned i = 0; i < 30; i++) CHECK(v[i] == i % 5 + 10 * (i / 5 % 3) + 100 * (i / 15));
}

void atomics(const Hip& h) {
    Gpu g(h);
    void* total = g.put(std::vector<uint32_t>{0, 0});
    OK(g.launch("count", 300, 256, total, 3u));
    auto v = g.get<uint32_t>(total, 2);
    CHECK(v[0] == 300 * 256 * 3 && v[1] == 300 * 256);
}

void shared_memory_starts_as_nan(const Hip& h) {
    Gpu g(h);
    void* out = g.alloc(20 * 256 * 4);
    OK(g.launch("uninitialised_shared", 20, 256, out));
    auto v = g.get<float>(out, 20 * 256);
    for (size_t i = 0; i < v.size(); i++) CHECK(i % 256 == 5 ? std::isnan(v[i]) : v[i] == 1);
    OK(g.launch("turn", 20, 256, out));
    v = g.get<float>(out, 20 * 256);
    for (size_t i = 0; i < v.size(); i++) CHECK(i % 256 == 250 ? std::isnan(v[i]) : v[i] == (float)(255 - i % 256));
}

void memory_starts_poisoned(const Hip& h) {
    Gpu g(h);
    void* p = g.alloc(1000);
    for (unsigned char byte : g.get<unsigned char>(p, 1000)) CHECK(byte == 0xCB);
    size_t free = 0, total = 0;
    OK(h.hipMemGetInfo(&free, &total));
    CHECK(total == 2048ull << 20 && free == total - 4096);
    OK(h.hipFree(p));
    CHECK(h.hipFree(p) == 1);
    OK(h.hipMemGetInfo(&free, &total));
    CHECK(free == total);
    CHECK(h.hipMalloc(&p, 2049ull << 20) == 2);
    OK(h.hipMalloc(&p, 64));
    std::vector<char> bytes(128);
    CHECK(h.hipMemcpyHtoDAsync(p, bytes.data(), 65, g.stream) == 1);
    CHECK(h.hipMemcpyHtoDAsync((char*)p - 1, bytes.data(), 4, g.stream) == 1);
    CHECK(h.hipMemcpyDtoHAsync(bytes.data(), bytes.data() + 64, 4, g.stream) == 1);
    CHECK(h.hipMemsetD8Async((char*)p + 60, 1, 5, g.stream) == 1);
    OK(h.hipMemsetD8Async(p, 7, 64, g.stream));
    for (unsigned char byte : g.get<unsigned char>(p, 64)) CHECK(byte == 7);
}

// After `run`, the device has failed and says so for ever.
void fails_with(const Gpu& g, int error) {
    CHECK(g.sync() == error);
    CHECK(g.sync() == error);
    void* p;
    CHECK(g.h.hipMalloc(&p, 16) == error);
    CHECK(g.launch("count", 1, 1, (void*)nullptr, 1u) == error);
}

void writes_far_outside(const Hip& h) {
    Gpu g(h);
    void* p = g.alloc(4096);
    OK(g.launch("outside", 4, 256, p, 1024ll));
    fails_with(g, 719);
}
void writes_just_outside(const Hip& h) {
    Gpu g(h);
    void* p = g.alloc(20);
    OK(g.launch("outside", 4, 256, p, 5ll));
    fails_with(g, 719);
}
void writes_before(const Hip& h) {
    Gpu g(h);
    void* p = g.alloc(20);
    OK(g.launch("outside", 4, 256, p, -1ll));
    fails_with(g, 719);
}
void writes_after_free(const Hip& h) {
    Gpu g(h);
    void* p = g.alloc(20);
    OK(h.hipFree(p));
    OK(g.launch("outside", 4, 256, p, 0ll));
    fails_with(g, 719);
}
void indexes_outside(const Hip& h) {
    Gpu g(h);
    void* p = g.alloc(1024);
    OK(g.launch("array_index", 1, 256, p, 0u));
    OK(g.sync());
    OK(g.launch("array_index", 1, 256, p, 1u));
    fails_with(g, 719);
}
void divides_by_zero(const Hip& h) {
    Gpu g(h);
    OK(g.launch("divide", 1, 256, g.alloc(1024), 0u));
    fails_with(g, 719);
}
void reads_misaligned(const Hip& h) {
    Gpu g(h);
    void *p = g.alloc(1024), *out = g.alloc(1024);
    OK(g.launch("misaligned", 1, 256, p, out, 4u));
    OK(g.sync());
    OK(g.launch("misaligned", 1, 256, p, out, 2u));
    fails_with(g, 719);
}
void shifts_too_far(const Hip& h) {
    Gpu g(h);
    void* out = g.alloc(1024);
    OK(g.launch("shift", 1, 256, out, 31u));
    OK(g.sync());
    OK(g.launch("shift", 1, 256, out, 32u));
    fails_with(g, 719);
}
void unchecked(const Hip& h) {
    Gpu g(h);
    void* out = g.alloc(1024);
    OK(g.launch("shift", 1, 256, out, 32u));
    OK(g.sync());
}
template <const char* const& name>
void diverges(const Hip& h) {
    Gpu g(h);
    void* p = g.alloc(4096);
    OK(g.launch(name, 1, 256, p));
    fails_with(g, 719);
}
constexpr const char *diverged_barrier = "diverged_barrier", *diverged_wave = "diverged_wave", *two_barriers = "two_barriers", *deep = "deep";

// In index order the race is not seen, in a random order it is.
void race_by_seed(const Hip& h) {
    Gpu g(h);
    void* p = g.alloc(1024);
    OK(g.launch("race", 1, 256, p));
    auto v = g.get<uint32_t>(p, 256);
    int wrong = 0;
    for (unsigned t = 1; t < 256; t++) wrong += v[t] != t - 1;
    CHECK(getenv("LAYERCAKE_STANDIN_SEED") ? wrong > 0 : wrong == 0);
    computes(h);
}

void streams_are_asynchronous(const Hip& h) {
    Gpu g(h);
    void* pinned;
    OK(h.hipHostMalloc(&pinned, 4, 0));
    void *p = g.put(std::vector<uint32_t>{1}), *other, *done, *begun;
    OK(h.hipStreamCreateWithFlags(&other, 1));
    OK(h.hipEventCreateWithFlags(&done, 0));
    OK(h.hipEventCreateWithFlags(&begun, 0));
    OK(h.hipEventQuery(done));
    const uint32_t n = 100000000;
    double start = now_s();
    OK(h.hipEventRecord(begun, g.stream));
    OK(g.launch("chain", 1, 1, p, n));
    *(uint32_t*)pinned = 5;
    // Queued behind the kernel: reads the source when it runs.
    OK(h.hipMemcpyHtoDAsync(p, pinned, 4, g.stream));
    *(uint32_t*)pinned = 6;
    OK(h.hipEventRecord(done, g.stream));
    CHECK(h.hipEventQuery(done) == 600);
    CHECK(h.hipStreamQuery(g.stream) == 600);
    CHECK(now_s() - start < 0.05);
    void* q = g.alloc(4);
    OK(h.hipStreamWaitEvent(other, done, 0));
    OK(h.hipMemcpyDtoDAsync(q, p, 4, other));
    OK(h.hipMemcpyDtoHAsync(pinned, q, 4, other));
    OK(h.hipStreamSynchronize(other));
    CHECK(*(uint32_t*)pinned == 6);
    OK(h.hipEventQuery(done));
    float ms = 0;
    OK(h.hipEventElapsedTime(&ms, begun, done));
    CHECK(ms > 20 && ms < 1000 * (now_s() - start));
    OK(h.hipEventDestroy(done));
    CHECK(h.hipEventQuery(done) == 400);
    OK(h.hipStreamDestroy(other));
    CHECK(h.hipStreamSynchronize(other) == 400);
    OK(h.hipHostFree(pinned));
}

void describes_devices(const Hip& h) {
    int n = 0;
    OK(h.hipGetDeviceCount(&n));
    CHECK(n == 2);
    char text[64];
    OK(h.hipDeviceGetPCIBusId(text, 64, 1));
    CHECK(!strcmp(text, "0000:04:00.0"));
    std::vector<unsigned char> props(1472 + 16, 0xEE);
    OK(h.hipGetDevicePropertiesR0600(props.data(), 0));
    CHECK(!strcmp((char*)props.data() + 1160, "gfx1030"));
    CHECK(props[1472] == 0xEE && *(uint64_t*)(props.data() + 288) == 100u << 20);
    std::fill(props.begin(), props.end(), 0xEE);
    OK(h.hipGetDeviceProperties(props.data(), 1));
    CHECK(!strcmp((char*)props.data() + 396, "gfx942"));
    CHECK(props[792] == 0xEE && *(uint64_t*)(props.data() + 256) == 200u << 20);
    int value = 0;
    OK(h.hipDeviceGetAttribute(&value, 87, 1));
    CHECK(value == 64);
    OK(h.hipDeviceGetAttribute(&value, 16, 1));
    CHECK(value == 1);
    void *p, *q, *s;
    OK(h.hipMalloc(&p, 16));
    OK(h.hipSetDevice(1));
    OK(h.hipMalloc(&q, 16));
    OK(h.hipStreamCreateWithFlags(&s, 1));
    std::vector<char> bytes(16, 3), back(16);
    OK(h.hipMemcpyHtoDAsync(q, bytes.data(), 16, s));
    CHECK(h.hipMemcpyPeerAsync(p, 1, q, 0, 16, s) == 1);
    OK(h.hipMemcpyPeerAsync(p, 0, q, 1, 16, s));
    OK(h.hipMemcpyDtoHAsync(back.data(), p, 16, s));
    CHECK(bytes == back);
    // Code of one chip is not code of another.
    OK(h.hipSetDevice(0));
    std::vector<char> code = compile(h, "extern \"C\" __global__ void f() {}", "gfx1030", 32);
    void *module, *f, *one;
    OK(h.hipModuleLoadData(&module, code.data()));
    OK(h.hipModuleGetFunction(&f, module, "f"));
    CHECK(h.hipModuleGetFunction(&one, module, "g") == 500);
    // A stream of the other device takes no kernel of this one.
    CHECK(h.hipModuleLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr) == 400);
    OK(h.hipModuleUnload(module));
    CHECK(h.hipModuleLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr) == 400);
    OK(h.hipSetDevice(1));
    CHECK(h.hipModuleLoadData(&module, code.data()) == 209);
    code[0] = 'x';
    CHECK(h.hipModuleLoadData(&module, code.data()) == 200);
}

void no_device(const Hip& h) {
    int n = 9;
    CHECK(h.hipInit(0) == 101 && h.hipGetDeviceCount(&n) == 100 && n == 0);
}

void compile_errors(const Hip& h) {
    for (auto [source, text] : {std::pair{"extern \"C\" __global__ void f() { unknown(); }", "mine.cu:1:"}, std::pair{"// broken on purpose", "FAIL_COMPILE"}}) {
        void* program;
        OK(h.hiprtcCreateProgram(&program, source, "mine.cu", 0, nullptr, nullptr));
        CHECK(h.hiprtcCompileProgram(program, 0, nullptr) == 6);
        size_t bytes;
        OK(h.hiprtcGetProgramLogSize(program, &bytes));
        std::string log(bytes, ' ');
        OK(h.hiprtcGetProgramLog(program, log.data()));
        if (log.find(text) == std::string::npos) fprintf(stderr, "%s", log.c_str());
        CHECK(log.find(text) != std::string::npos);
    }
}

void fails_allocations(const Hip& h) {
    OK(h.hipInit(0));
    void* p;
    OK(h.hipMalloc(&p, 16));
    CHECK(h.hipMalloc(&p, 16) == 2);
    CHECK(h.hipMalloc(&p, 16) == (getenv("SELFTEST_ONCE") ? 0 : 2));
}

void fails_launches(const Hip& h) {
    Gpu g(h);
    void* total = g.put(std::vector<uint32_t>{0, 0});
    OK(g.launch("count", 1, 1, total, 1u));
    CHECK(g.launch("count", 1, 1, total, 1u) == 719);
    fails_with(g, 719);
}

void loses_a_device(const Hip& h) {
    Gpu g(h);
    void* total = g.put(std::vector<uint32_t>{0, 0});
    for (int i = 0; i < 4; i++) OK(g.launch("count", 1, 1, total, 1u));
    CHECK(g.launch("count", 1, 1, total, 1u) == 100);
    fails_with(g, 100);
    OK(h.hipSetDevice(1));
    OK(h.hipMalloc(&total, 16));
}

void slow_copies(const Hip& h) {
    Gpu g(h);
    double start = now_s();
    g.put(std::vector<char>(100000));
    CHECK(now_s() - start >= 0.1);
}

// Three streams run the same kernels at once; each hands its result on to the next through events.
void many_streams(const Hip& h) {
    Gpu g(h);
    constexpr int n_streams = 3, n_rounds = 100;
    void *streams[n_streams], *events[n_streams];
    for (int i = 0; i < n_streams; i++) {
        OK(h.hipStreamCreateWithFlags(&streams[i], 1));
        OK(h.hipEventCreateWithFlags(&events[i], 2));
    }
    const unsigned n = 256 * 6;
    std::vector<float> ones(n, 1), x(n);
    for (unsigned i = 0; i < n; i++) x[i] = (float)(i % 7);
    void *po = g.put(ones), *px = g.put(x), *own[n_streams];
    for (auto& p : own) p = g.alloc(6 * 4);
    for (int round = 0; round < n_rounds; round++)
        for (int i = 0; i < n_streams; i++) {
            OK(h.hipStreamWaitEvent(streams[i], events[(i + n_streams - 1) % n_streams], 0));
            // x = x + 1, in the order that the events give; the sums beside it.
            OK(g.launch_on(streams[i], "add", 6, 256, px, po, px, n, 1.0f));
            OK(h.hipEventRecord(events[i], streams[i]));
            OK(g.launch_on(streams[i], "block_sum", 6, 256, po, own[i]));
            // Waits for the whole device: seldom, so that the streams overlap.
            if (round % 20 == 0) OK(h.hipFree(g.alloc(100)));
        }
    for (auto s : streams) OK(h.hipStreamSynchronize(s));
    auto v = g.get<float>(px, n);
    for (unsigned i = 0; i < n; i++) CHECK(v[i] == (float)(i % 7) + n_streams * n_rounds);
    for (auto p : own)
        for (float sum : g.get<float>(p, 6)) CHECK(sum == 256);
}

void is_fast(const Hip& h) {
    Gpu g(h);
    void* p = g.alloc(256 * 4);
    OK(g.launch("shuffles", 1, 256, p, 1u));
    OK(g.sync());
    const uint32_t n = 20000;
    // Of the processor, so that other programs do not count.
    double start = now_s(CLOCK_PROCESS_CPUTIME_ID);
    OK(g.launch("shuffles", 1, 256, p, n));
    OK(g.sync());
    double us = (now_s(CLOCK_PROCESS_CPUTIME_ID) - start) * 1e6 / (n * 256.0 / g.wave);
    void* total = g.put(std::vector<uint32_t>{0, 0});
    start = now_s(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < 5000; i++) OK(g.launch("count", 1, 64, total, 1u));
    OK(g.sync());
    printf("    a wave's shuffle %.3f us, a launch %.2f us\n", us, (now_s(CLOCK_PROCESS_CPUTIME_ID) - start) / 5000 * 1e6);
    CHECK(us < 5);
}

struct Case {
    const char* name;
    void (*run)(const Hip&);
    std::map<std::string, std::string> environment;
    // What stderr must say.
    std::vector<std::string> says;
};

const std::vector<Case> cases = {
    {"computes", computes, {}, {}},
    {"computes, waves of 64", computes, {{"WAVE", "64"}}, {}},
    {"computes, random order", computes, {{"SEED", "7"}}, {}},
    {"wave functions", wave_functions, {}, {}},
    {"wave functions, waves of 64", wave_functions, {{"WAVE", "64"}}, {}},
    {"wave functions, random order", wave_functions, {{"SEED", "3"}}, {}},
    {"grids", grids, {}, {}},
    {"atomics", atomics, {}, {}},
    {"shared memory starts as NaN", shared_memory_starts_as_nan, {}, {}},
    {"memory starts poisoned", memory_starts_poisoned, {}, {}},
    {"writes far outside", writes_far_outside, {}, {"kernel outside, block (0, 0, 0), thread 77", "0 bytes after the end of the allocation of 4096 bytes"}},
    {"writes just outside", writes_just_outside, {}, {"after kernel outside: bytes after the allocation of 20 bytes"}},
    {"writes before", writes_before, {}, {"after kernel outside: bytes before the allocation of 20 bytes"}},
    {"writes after free", writes_after_free, {}, {"kernel outside, block (0, 0, 0), thread 77: bad access"}},
    {"a barrier some threads miss", diverges<diverged_barrier>, {}, {"kernel diverged_barrier, block (0, 0, 0), thread 40: waits at ds_bpermute", "thread 32 waits at a barrier"}},
    {"a wave function some lanes miss", diverges<diverged_wave>, {}, {"kernel diverged_wave, block (0, 0, 0), thread 7: waits at ds_bpermute, but thread 0 of its wave waits at readfirstlane"}},
    {"different barriers", diverges<two_barriers>, {}, {"waits at another barrier than thread 0"}},
    {"indexes outside of an array", indexes_outside, {}, {"kernel array_index, block (0, 0, 0), thread 255: an index is outside"}},
    {"reads misaligned", reads_misaligned, {}, {"kernel misaligned, block (0, 0, 0), thread 0: an access to an address"}},
    {"shifts too far", shifts_too_far, {}, {"kernel shift, block (0, 0, 0), thread 0: a shift by as many bits"}},
    {"shifts too far, unchecked", unchecked, {{"CHECKS", "0"}}, {}},
    {"divides by zero", divides_by_zero, {}, {"kernel divide, block (0, 0, 0), thread 0: an integer division by zero"}},
    {"too many local variables", diverges<deep>, {}, {"kernel deep", "its local variables need more than 65536 bytes"}},
    {"a race, in order", race_by_seed, {}, {}},
    {"a race, random order", race_by_seed, {{"SEED", "1"}}, {}},
    {"streams are asynchronous", streams_are_asynchronous, {}, {}},
    {"devices", describes_devices, {{"DEVICES", "2"}, {"ARCH", "gfx1030,gfx942"}, {"MEMORY_MIB", "100,200"}, {"INTEGRATED", "1"}}, {}},
    {"no device", no_device, {{"NO_DEVICE", "1"}}, {}},
    {"compile errors", compile_errors, {{"FAIL_COMPILE", "on purpose"}}, {}},
    {"an allocation fails", fails_allocations, {{"FAIL_ALLOC", "2"}, {"../SELFTEST_ONCE", "1"}}, {}},
    {"allocations fail", fails_allocations, {{"FAIL_ALLOC", "2+"}}, {}},
    {"a launch fails", fails_launches, {{"FAIL_LAUNCH", "2"}}, {"the launch fails"}},
    {"a device is lost", loses_a_device, {{"DEVICES", "2"}, {"LOST_AFTER", "5"}}, {"the device is lost"}},
    {"slow copies", slow_copies, {{"COPY_BYTES_PER_S", "1000000"}}, {}},
    {"many streams", many_streams, {}, {}},
    {"many streams, random order", many_streams, {{"SEED", "11"}, {"WAVE", "64"}}, {}},
    {"speed", is_fast, {}, {}},
};

std::string read_all(int file) {
    std::string text;
    char part[4096];
    for (ssize_t n; (n = read(file, part, sizeof part)) > 0;) text.append(part, (size_t)n);
    return text;
}

bool run_case(const Case& c, const char* library) {
    int ends[2];
    if (pipe(ends)) return false;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        for (auto& [name, value] : c.environment)
            setenv((name.compare(0, 3, "../") ? "LAYERCAKE_STANDIN_" + name : name.substr(3)).c_str(), value.c_str(), 1);
        alarm(120);
        Hip h;
        h.open(library);
        c.run(h);
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    std::string said = read_all(ends[0]);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    bool ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    for (auto& text : c.says)
        if (said.find(text) == std::string::npos) {
            printf("    stderr does not say: %s\n", text.c_str());
            ok = false;
        }
    printf("%s  %s\n", ok ? "ok    " : "FAILED", c.name);
    if (!ok) printf("    status %d, stderr: %s\n", status, said.c_str());
    return ok;
}
}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: selftest LIBAMDHIP64 [FILTER]\n");
        return 2;
    }
    int n_failed = 0;
    for (auto& c : cases)
        if (argc < 3 || strstr(c.name, argv[2])) n_failed += !run_case(c, argv[1]);
    printf(n_failed ? "%d FAILED\n" : "all ok\n", n_failed);
    return n_failed != 0;
}
