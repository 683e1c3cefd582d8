// The functions of libamdhip64 that the self-test calls, looked up by name.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

#define HIP_FUNCTIONS(F)                                                                                        \
    F(hipInit, unsigned)                                                                                        \
    F(hipGetDeviceCount, int*)                                                                                  \
    F(hipSetDevice, int)                                                                                        \
    F(hipDeviceGetAttribute, int*, int, int)                                                                    \
    F(hipDeviceGetPCIBusId, char*, int, int)                                                                    \
    F(hipGetDevicePropertiesR0600, void*, int)                                                                  \
    F(hipGetDeviceProperties, void*, int)                                                                       \
    F(hipMemGetInfo, size_t*, size_t*)                                                                          \
    F(hipMalloc, void**, size_t)                                                                                \
    F(hipFree, void*)                                                                                           \
    F(hipHostMalloc, void**, size_t, unsigned)                                                                  \
    F(hipHostFree, void*)                                                                                       \
    F(hipStreamCreateWithFlags, void**, unsigned)                                                               \
    F(hipStreamDestroy, void*)                                                                                  \
    F(hipStreamSynchronize, void*)                                                                              \
    F(hipStreamQuery, void*)                                                                                    \
    F(hipStreamWaitEvent, void*, void*, unsigned)                                                               \
    F(hipEventCreateWithFlags, void**, unsigned)                                                                \
    F(hipEventDestroy, void*)                                                                                   \
    F(hipEventRecord, void*, void*)                                                                             \
    F(hipEventQuery, void*)                                                                                     \
    F(hipEventElapsedTime, float*, void*, void*)                                                                \
    F(hipMemcpyHtoDAsync, void*, void*, size_t, void*)                                                          \
    F(hipMemcpyDtoHAsync, void*, void*, size_t, void*)                                                          \
    F(hipMemcpyDtoDAsync, void*, void*, size_t, void*)                                                          \
    F(hipMemcpyPeerAsync, void*, int, const void*, int, size_t, void*)                                          \
    F(hipMemsetD8Async, void*, unsigned char, size_t, void*)                                                    \
    F(hipModuleLoadData, void**, const void*)                                                                   \
    F(hipModuleUnload, void*)                                                                                   \
    F(hipModuleGetFunction, void**, void*, const char*)                                                         \
    F(hipModuleLaunchKernel, void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**) \
    F(hiprtcCreateProgram, void**, const char*, const char*, int, const char**, const char**)                   \
    F(hiprtcDestroyProgram, void**)                                                                             \
    F(hiprtcCompileProgram, void*, int, const char**)                                                           \
    F(hiprtcGetProgramLogSize, void*, size_t*)                                                                  \
    F(hiprtcGetProgramLog, void*, char*)                                                                        \
    F(hiprtcGetCodeSize, void*, size_t*)                                                                        \
    F(hiprtcGetCode, void*, char*)

struct Hip {
#define F(name, ...) int (*name)(__VA_ARGS__) = nullptr;
    HIP_FUNCTIONS(F)
#undef F

    void open(const char* path) {
        void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            fprintf(stderr, "%s\n", dlerror());
            _exit(1);
        }
#define F(name, ...)                                             \
    name = (int (*)(__VA_ARGS__))dlsym(library, #name);          \
    if (!name) {                                                 \
        fprintf(stderr, "no %s in %s\n", #name, path);           \
        _exit(1);                                                \
    }
        HIP_FUNCTIONS(F)
#undef F
    }
};
