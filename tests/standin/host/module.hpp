// Compiled kernels: loaded as shared libraries of the host, launched over the blocks of a grid.
#pragma once
#include <memory>
#include <string>

#include "hip.hpp"
#include "simt.hpp"

namespace module {

struct Module;
struct Function;

// What stands before the shared library in the bytes that the stand-in calls code.
struct CodeHeader {
    char magic[8];
    char arch[56];
};
constexpr char code_magic[8] = {'L', 'C', 'S', 'T', 'A', 'N', 'D', '1'};

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
