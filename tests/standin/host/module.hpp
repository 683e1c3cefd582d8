// Compiled kernels: loaded as shared libraries of the host, launched over the blocks of a grid.
#pragma once
#include <memory>
#include <string>

#include "hip.hpp"
#include "simt.hpp"

namespace module {

struct Module;
struct Function;

// The library's text that names the chip it has been compiled for.
constexpr const char* arch_symbol = "__lc_arch";

// `code` is an ELF shared library of the host; hipErrorNoBinaryForGpu when compiled for another chip than the device's.
Error load(Module** out, const void* code, int device);
Error unload(Module* module);
Error find(Function** out, Module* module, const char* name);
bool is_function(const Function* f);
int device_of(const Function* f);
std::string name_of(const Function* f);

// The arguments' values, copied.
struct Arguments {
    std::unique_ptr<char[]> bytes;
    std::unique_ptr<void*[]> pointers;
};
Arguments copy_arguments(const Function* f, void** params);

// Runs all blocks; returns when they have ended. False when one has failed.
bool run(Function* f, simt::Dim grid, simt::Dim block, void** args, std::string& error);

}  // namespace module
