// Exercises the CUDA-backed stand-in next to a CUDA user in one process.
//   selftest LIBAMDHIP64           on a machine with an NVIDIA card and NVRTC
//   selftest --no-gpu LIBAMDHIP64  what holds without a card (hiprtc is checked where NVRTC is found)
// Set LAYERCAKE_STANDIN_DEVICES=2 for the copies between devices (the GPU run sets it when it is unset).
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

void* hip_library = nullptr;
void* cuda_library = nullptr;
void* expected_context = nullptr;
thread_local bool watch_context = false;

[[noreturn]] void fail(const std::string& what) {
    std::fprintf(stderr, "selftest: %s\n", what.c_str());
    std::exit(1);
}

template <typename... A>
int raw(void* library, const char* name, A... arguments) {
    using F = int (*)(A...);
    auto function = reinterpret_cast<F>(dlsym(library, name));
    if (function == nullptr) fail(std::string("no symbol ") + name);
    return function(arguments...);
}

template <typename... A>
void cuda(const char* name, A... arguments) {
    if (int code = raw(cuda_library, name, arguments...); code != 0) {
        fail(std::string(name) + " gave " + std::to_string(code));
    }
}

void check_context(const char* after) {
    if (!watch_context) return;
    void* now = nullptr;
    cuda("cuCtxGetCurrent", &now);
    if (now != expected_context) fail(std::string("the CUDA side's context is no longer current after ") + after);
}

// One HIP call that must succeed and must leave the CUDA side's context current.
template <typename... A>
void hip(const char* name, A... arguments) {
    if (int code = raw(hip_library, name, arguments...); code != 0) {
        fail(std::string(name) + " gave " + std::to_string(code));
    }
    check_context(name);
}

void expect(bool holds, const char* what) {
    if (!holds) fail(std::string("does not hold: ") + what);
}

const char* const kSource = R"(
#if defined(__HIP__) || defined(__HIPCC_RTC__)
#error "the AMD branch is not for NVRTC"
#endif
extern "C" __global__ void scale_add(float* to, const float* from, float factor, unsigned n, unsigned rounds) {
    extern __shared__ float lane[];
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    lane[threadIdx.x] = i < n ? from[i] : 0.0f;
    __syncthreads();
    float value = lane[threadIdx.x];
    for (unsigned round = 0; round < rounds; ++round) value = value * factor + (float)(LC_WAVE == 32);
    if (i < n) to[i] = value;
}
)";

// Compiles through hiprtc; an empty answer when `required` is false and there is no NVRTC.
std::vector<char> compile(const char* source, bool required) {
    void* program = nullptr;
    const char* const name = "selftest.cu";
    const int made = raw(hip_library, "hiprtcCreateProgram", &program, source, name, 0, static_cast<const char**>(nullptr),
                         static_cast<const char**>(nullptr));
    if (made != 0 && !required) return {};
    if (made != 0) fail("hiprtcCreateProgram gave " + std::to_string(made) + "; is there a libnvrtc?");
    const char* options[] = {"--offload-arch=gfx1100", "-O3",    "-std=c++17",      "-DLC_WAVE=32",
                             "-D",                     "LC_GFX=0x1100", "-mllvm", "-amdgpu-x=1", "-munsafe-fp-atomics"};
    const int code = raw(hip_library, "hiprtcCompileProgram", program, 9, static_cast<const char**>(options));
    size_t log_size = 0;
    hip("hiprtcGetProgramLogSize", program, &log_size);
    std::string log(log_size, '\0');
    if (log_size > 0) hip("hiprtcGetProgramLog", program, log.data());
    if (code != 0) fail("hiprtcCompileProgram gave " + std::to_string(code) + ":\n" + log);
    size_t size = 0;
    hip("hiprtcGetCodeSize", program, &size);
    std::vector<char> image(size);
    hip("hiprtcGetCode", program, image.data());
    hip("hiprtcDestroyProgram", &program);
    expect(program == nullptr, "hiprtcDestroyProgram clears the handle");
    expect(size > 64 && std::memcmp(image.data(), "\x7f" "ELF", 4) == 0, "the code is an ELF image");
    return image;
}

void check_bad_source(bool required) {
    void* program = nullptr;
    const char* const source = "extern \"C\" __global__ void broken( {";
    const char* const name = "broken.cu";
    if (raw(hip_library, "hiprtcCreateProgram", &program, source, name, 0, static_cast<const char**>(nullptr),
            static_cast<const char**>(nullptr)) != 0) {
        expect(!required, "a program can be made");
        return;
    }
    expect(raw(hip_library, "hiprtcCompileProgram", program, 0, static_cast<const char**>(nullptr)) == 6,
           "a source with an error gives HIPRTC_ERROR_COMPILATION");
    size_t size = 0;
    hip("hiprtcGetProgramLogSize", program, &size);
    std::string log(size, '\0');
    hip("hiprtcGetProgramLog", program, log.data());
    expect(log.find("broken.cu") != std::string::npos, "the log names the source");
    hip("hiprtcDestroyProgram", &program);
}

void without_gpu() {
    expect(raw(hip_library, "hipInit", 0U) == 100, "hipInit without a driver gives hipErrorNoDevice");
    int count = -1;
    expect(raw(hip_library, "hipGetDeviceCount", &count) == 100 && count == 0, "no device is counted");
    expect(raw(hip_library, "hipSetDevice", 0) == 100, "no device can be set");
    void* pointer = nullptr;
    expect(raw(hip_library, "hipMalloc", &pointer, size_t{64}) == 100 && pointer == nullptr, "no memory is given");
    expect(raw(hip_library, "hipGetLastError") == 100 && raw(hip_library, "hipGetLastError") == 0,
           "hipGetLastError tells once");
    check_bad_source(false);
    const bool compiled = !compile(kSource, false).empty();
    std::printf("no GPU: calls answer with errors; hiprtc %s\n", compiled ? "compiles" : "not checked (no libnvrtc)");
}

constexpr unsigned kCount = 1U << 20;
constexpr unsigned kRounds = 300;

float expected_value(unsigned i, float factor) {
    float value = static_cast<float>(i % 97);
    for (unsigned round = 0; round < kRounds; ++round) value = value * factor + 1.0f;
    return value;
}

// Several streams on one device: upload, kernel, download, each ordered by events across two streams.
void streams_and_events(int device, void* function) {
    constexpr int kStreams = 4;
    const size_t bytes = kCount * sizeof(float);
    hip("hipSetDevice", device);
    struct Lane {
        void *copy, *work, *up, *ran, *from, *to;
        float *in, *out;
    };
    std::vector<Lane> lanes(kStreams);
    for (Lane& l : lanes) {
        hip("hipStreamCreateWithFlags", &l.copy, 1U);
        hip("hipStreamCreateWithFlags", &l.work, 1U);
        hip("hipEventCreateWithFlags", &l.up, 0U);
        hip("hipEventCreateWithFlags", &l.ran, 0x80000000U);
        hip("hipMalloc", &l.from, bytes);
        hip("hipMalloc", &l.to, bytes);
        hip("hipHostMalloc", reinterpret_cast<void**>(&l.in), bytes, 0U);
        hip("hipHostMalloc", reinterpret_cast<void**>(&l.out), bytes, 0U);
        for (unsigned i = 0; i < kCount; ++i) l.in[i] = static_cast<float>(i % 97);
        std::memset(l.out, 0xff, bytes);
    }
    for (int k = 0; k < kStreams; ++k) {
        Lane& l = lanes[static_cast<size_t>(k)];
        hip("hipMemsetD8Async", l.to, static_cast<unsigned char>(0), bytes, l.copy);
        hip("hipMemcpyHtoDAsync", l.from, static_cast<void*>(l.in), bytes, l.copy);
        hip("hipEventRecord", l.up, l.copy);
        hip("hipStreamWaitEvent", l.work, l.up, 0U);
        float factor = 0.5f + 0.1f * static_cast<float>(k);
        unsigned n = kCount, rounds = kRounds;
        void* arguments[] = {&l.to, &l.from, &factor, &n, &rounds};
        // Over 48 KiB of shared memory, which CUDA grants only when asked and HIP without asking.
        hip("hipModuleLaunchKernel", function, kCount / 256, 1U, 1U, 256U, 1U, 1U, k == 0 ? 60U * 1024 : 1024U, l.work,
            static_cast<void**>(arguments), static_cast<void**>(nullptr));
        hip("hipEventRecord", l.ran, l.work);
        hip("hipStreamWaitEvent", l.copy, l.ran, 0U);
        hip("hipMemcpyDtoHAsync", static_cast<void*>(l.out), l.to, bytes, l.copy);
    }
    for (int k = 0; k < kStreams; ++k) {
        Lane& l = lanes[static_cast<size_t>(k)];
        const int query = raw(hip_library, "hipStreamQuery", l.copy);
        expect(query == 0 || query == 600, "hipStreamQuery tells ready or not ready");
        hip("hipStreamSynchronize", l.copy);
        hip("hipEventSynchronize", l.ran);
        hip("hipEventQuery", l.ran);
        float ms = -1.0f;
        hip("hipEventElapsedTime", &ms, l.up, l.ran);
        expect(ms >= 0.0f && ms < 10000.0f, "the time between two events is sensible");
        const float factor = 0.5f + 0.1f * static_cast<float>(k);
        for (unsigned i = 0; i < kCount; ++i) {
            const float want = expected_value(i, factor), got = l.out[i];
            const float off = got - want < 0 ? want - got : got - want;
            if (!(off <= 1e-4f * want)) fail("value " + std::to_string(i) + " is " + std::to_string(got) + ", not " + std::to_string(want));
        }
    }
    for (Lane& l : lanes) {
        hip("hipEventDestroy", l.up);
        hip("hipEventDestroy", l.ran);
        hip("hipStreamDestroy", l.copy);
        hip("hipStreamDestroy", l.work);
        hip("hipFree", l.from);
        hip("hipFree", l.to);
        hip("hipHostFree", static_cast<void*>(l.in));
        hip("hipHostFree", static_cast<void*>(l.out));
    }
}

void peers() {
    const size_t bytes = size_t{1} << 20;
    void *first = nullptr, *second = nullptr, *stream[2] = {}, *done = nullptr, *host = nullptr;
    for (int device = 0; device < 2; ++device) {
        hip("hipSetDevice", device);
        hip("hipStreamCreateWithFlags", &stream[device], 1U);
        hip("hipMalloc", device == 0 ? &first : &second, bytes);
    }
    int can = -1;
    hip("hipDeviceCanAccessPeer", &can, 0, 1);
    if (can == 1) {
        hip("hipDeviceEnablePeerAccess", 0, 0U);
        expect(raw(hip_library, "hipDeviceEnablePeerAccess", 0, 0U) == 704, "peer access is enabled once");
        hip("hipGetDevice", &can);
    }
    hip("hipSetDevice", 0);
    hip("hipEventCreateWithFlags", &done, 2U);
    hip("hipHostMalloc", &host, bytes, 0U);
    std::memset(host, 0, bytes);
    hip("hipMemsetD8Async", first, static_cast<unsigned char>(0x5a), bytes, stream[0]);
    hip("hipMemcpyPeerAsync", second, 1, static_cast<const void*>(first), 0, bytes, stream[0]);
    hip("hipEventRecord", done, stream[0]);
    // The other device's stream waits for it, with device 0 still set on this thread.
    hip("hipStreamWaitEvent", stream[1], done, 0U);
    hip("hipMemcpyDtoHAsync", host, second, bytes, stream[1]);
    hip("hipStreamSynchronize", stream[1]);
    for (size_t i = 0; i < bytes; ++i) expect(static_cast<unsigned char*>(host)[i] == 0x5a, "bytes arrive at the other device");
    hip("hipEventDestroy", done);
    for (void* each : stream) hip("hipStreamDestroy", each);
    hip("hipFree", first);
    hip("hipFree", second);
    hip("hipHostFree", host);
}

void facts(int device) {
    char text[256];
    int number = 0;
    size_t total = 0, free_bytes = 0;
    std::vector<char> properties(1472);
    hip("hipSetDevice", device);
    hip("hipDeviceGetName", static_cast<char*>(text), 256, device);
    std::printf("device %d: %s", device, text);
    hip("hipDeviceGetPCIBusId", static_cast<char*>(text), 256, device);
    hip("hipDeviceTotalMem", &total, device);
    hip("hipMemGetInfo", &free_bytes, &total);
    std::printf(", %s, %zu of %zu MiB free\n", text, free_bytes >> 20, total >> 20);
    hip("hipDeviceGetAttribute", &number, 87, device);
    expect(number == 32, "the warp size is 32");
    hip("hipDeviceGetAttribute", &number, 63, device);
    expect(number > 0, "there are processors");
    hip("hipGetDevicePropertiesR0600", static_cast<void*>(properties.data()), device);
    expect(std::strncmp(properties.data() + 1160, "gfx", 3) == 0, "the architecture name is where ROCm 6 has it");
    void* all = nullptr;
    expect(raw(hip_library, "hipMalloc", &all, total + 1) == 2, "more than all memory is refused");
    size_t before = free_bytes, after = 0;
    hip("hipMalloc", &all, size_t{64} << 20);
    hip("hipMemGetInfo", &after, &total);
    expect(after + (size_t{64} << 20) <= before + (size_t{4} << 20), "an allocation lowers what is free");
    hip("hipFree", all);
}

void with_gpu() {
    cuda_library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (cuda_library == nullptr) fail(std::string("no libcuda: ") + dlerror());
    int card = 0;
    cuda("cuInit", 0U);
    cuda("cuDeviceGet", &card, 0);
    cuda("cuDevicePrimaryCtxRetain", &expected_context, card);
    cuda("cuCtxSetCurrent", expected_context);
    watch_context = true;
    unsigned long long of_cuda = 0;
    cuda("cuMemAlloc_v2", &of_cuda, size_t{4096});
    cuda("cuMemsetD8_v2", of_cuda, static_cast<unsigned char>(0x77), size_t{4096});

    hip("hipInit", 0U);
    int count = 0;
    hip("hipGetDeviceCount", &count);
    check_bad_source(true);
    const std::vector<char> image = compile(kSource, true);
    std::vector<void*> modules(static_cast<size_t>(count)), functions(static_cast<size_t>(count));
    for (int device = 0; device < count; ++device) {
        facts(device);
        hip("hipModuleLoadData", &modules[static_cast<size_t>(device)], static_cast<const void*>(image.data()));
        hip("hipModuleGetFunction", &functions[static_cast<size_t>(device)], modules[static_cast<size_t>(device)], "scale_add");
        streams_and_events(device, functions[static_cast<size_t>(device)]);
        std::printf("device %d: streams, events and pinned copies agree\n", device);
    }
    // All devices at once, each from its own thread; these threads have no CUDA context before or after.
    std::vector<std::thread> threads;
    for (int device = 0; device < count; ++device) {
        threads.emplace_back([&, device] {
            streams_and_events(device, functions[static_cast<size_t>(device)]);
            void* now = &now;
            cuda("cuCtxGetCurrent", &now);
            expect(now == nullptr, "a thread without a CUDA context is left without one");
        });
    }
    for (std::thread& thread : threads) thread.join();
    if (count > 1) {
        peers();
        std::printf("copies between devices arrive\n");
    }
    for (int device = 0; device < count; ++device) {
        hip("hipSetDevice", device);
        hip("hipDeviceSynchronize");
        hip("hipModuleUnload", modules[static_cast<size_t>(device)]);
    }
    unsigned char back[4096] = {};
    cuda("cuMemcpyDtoH_v2", static_cast<void*>(back), of_cuda, sizeof back);
    for (unsigned char each : back) expect(each == 0x77, "the CUDA side's memory is untouched");
    cuda("cuMemFree_v2", of_cuda);
    cuda("cuDevicePrimaryCtxRelease_v2", card);
    std::printf("the CUDA side's context stayed current throughout\n");
}

}  // namespace

int main(int argc, char** argv) {
    const bool no_gpu = argc == 3 && std::strcmp(argv[1], "--no-gpu") == 0;
    if (argc != 2 && !no_gpu) {
        std::fprintf(stderr, "usage: selftest [--no-gpu] LIBAMDHIP64\n");
        return 2;
    }
    setenv("LAYERCAKE_STANDIN_DEVICES", "2", 0);
    hip_library = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
    if (hip_library == nullptr) fail(dlerror());
    if (no_gpu) {
        void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (driver != nullptr && raw(driver, "cuInit", 0U) == 0) {
            std::printf("there is a CUDA driver here: run selftest without --no-gpu\n");
            return 0;
        }
        without_gpu();
    } else {
        with_gpu();
    }
    std::printf("selftest: passed\n");
    return 0;
}
