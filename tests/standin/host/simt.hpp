// Runs the threads of a block as fibres of one OS thread.
#pragma once
#include <cstdint>
#include <string>

namespace simt {

// Where the running thread is: the layout of __lc_State in preamble.hpp.
struct State {
    uint32_t thread[3], block[3], block_dim[3], grid_dim[3], lane, wave_size;
};

using Thunk = void (*)(void**);

struct Dim {
    uint32_t x, y, z;
    uint64_t count() const { return (uint64_t)x * y * z; }
};

constexpr uint32_t max_threads = 1024;

struct Block {
    const char* kernel;
    Thunk thunk;
    void** args;
    State* state;
    Dim grid, block;
    uint64_t index;
    uint32_t wave_size;
    // 0: threads run in the order of their numbers, otherwise in an order drawn from this.
    uint64_t seed;
};

// False when the block failed; `error` then says why, and where.
bool run_block(const Block& block, std::string& error);

// Installs the handler that turns a bad access inside a kernel into a failed block.
void install_fault_handler();
}  // namespace simt
