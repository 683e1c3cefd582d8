#include "simt.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

#include "memory.hpp"

#if !defined(__x86_64__)
#error "the stand-in's context switch is written for x86-64"
#endif

// void lc_switch(void** saved_sp, void* sp): callee-saved registers go to the old stack and come from the new one.
extern "C" void lc_switch(void** saved_sp, void* sp);
extern "C" void lc_switch_resume();
asm(R"(
.text
.p2align 4
.globl lc_switch
.hidden lc_switch
.type lc_switch,@function
lc_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
.globl lc_switch_resume
.hidden lc_switch_resume
lc_switch_resume:
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size lc_switch,.-lc_switch
)");

namespace simt {
namespace {

constexpr size_t stack_bytes = 64 << 10, page_bytes = 4096, stacks_at_once = 32;

enum class Op : uint8_t { bpermute, permute, first_lane, read_lane, ballot, wave_barrier };

const char* name_of(Op op) {
    switch (op) {
        case Op::bpermute: return "ds_bpermute";
        case Op::permute: return "ds_permute";
        case Op::first_lane: return "readfirstlane";
        case Op::read_lane: return "readlane";
        case Op::ballot: return "ballot";
        case Op::wave_barrier: return "wave_barrier";
    }
    return "?";
}

// Sets of lanes are bits. Each lane that has not returned is in exactly one of ready, at_op and at_barrier.
struct Wave {
    uint64_t live, ready, at_op, at_barrier;
    const void* op_site;
    const void* barrier_site;
    Op op;
    // Two generations: a fast lane may put the value of the next operation before a slow one has read this one's.
    uint8_t generation;
    uint64_t active[2];
    uint32_t value[2][64], target[2][64];
};

struct Worker {
    const Block* block = nullptr;
    void* main_sp = nullptr;
    uint32_t n_threads = 0, n_waves = 0, shift = 0, lane_mask = 0, current = 0, n_live = 0, n_at_barrier = 0;
    bool flat = true, seeded = false, failed = false;
    State* state = nullptr;
    uint64_t random = 0;
    std::string error;
    void* sp[max_threads];         // null: has not begun
    uint16_t stack_of[max_threads];
    Wave waves[max_threads / 32];
    std::vector<char*> stack_tops;
    std::vector<uint16_t> free_stacks;
    std::unique_ptr<char[]> signal_stack;

    Worker();
    ~Worker();
};

thread_local std::unique_ptr<Worker> owned_worker;
// Set only while a block runs. initial-exec: one instruction, and safe in a signal handler.
__attribute__((tls_model("initial-exec"))) thread_local Worker* running = nullptr;

Worker::Worker() : signal_stack(new char[64 << 10]) {
    stack_t stack{};
    stack.ss_sp = signal_stack.get();
    stack.ss_size = 64 << 10;
    sigaltstack(&stack, nullptr);
}

Worker::~Worker() {
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
    for (size_t i = 0; i < stack_tops.size(); i += stacks_at_once)
        munmap(stack_tops[i] - stack_bytes - page_bytes, stacks_at_once * (stack_bytes + page_bytes));
}

uint64_t next_random(Worker& w) {
    w.random ^= w.random << 13;
    w.random ^= w.random >> 7;
    w.random ^= w.random << 17;
    return w.random;
}

uint16_t take_stack(Worker& w) {
    if (w.free_stacks.empty()) {
        size_t each = stack_bytes + page_bytes;
        auto* base = (char*)mmap(nullptr, stacks_at_once * each, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) {
            fprintf(stderr, "standin: no memory for the stacks of GPU threads\n");
            abort();
        }
        for (size_t i = 0; i < stacks_at_once; i++) mprotect(base + i * each, page_bytes, PROT_NONE);
        for (size_t i = 0; i < stacks_at_once; i++) w.stack_tops.push_back(base + (i + 1) * each);
        for (size_t i = 0; i < stacks_at_once; i++) w.free_stacks.push_back((uint16_t)(w.stack_tops.size() - 1 - i));
    }
    uint16_t stack = w.free_stacks.back();
    w.free_stacks.pop_back();
    return stack;
}

std::string place(const Worker& w, uint32_t thread) {
    const Block& b = *w.block;
    char text[256];
    uint64_t i = b.index;
    snprintf(text, sizeof text, "kernel %s, block (%u, %u, %u), thread %u", b.kernel, (unsigned)(i % b.grid.x),
             (unsigned)(i / b.grid.x % b.grid.y), (unsigned)(i / b.grid.x / b.grid.y), thread);
    return text;
}

void enter(Worker& w, uint32_t thread) {
    w.current = thread;
    State& s = *w.state;
    s.lane = thread & w.lane_mask;
    if (w.flat) {
        s.thread[0] = thread;
    } else {
        const Dim& d = w.block->block;
        s.thread[0] = thread % d.x;
        s.thread[1] = thread / d.x % d.y;
        s.thread[2] = thread / d.x / d.y;
    }
}

[[noreturn]] void stop(Worker& w) {
    void* dead;
    lc_switch(&dead, w.main_sp);
    abort();
}

[[noreturn]] void fail(Worker& w, std::string text) {
    w.failed = true;
    w.error = std::move(text);
    stop(w);
}

uint32_t pick(Worker& w, uint64_t ready) {
    if (w.seeded) {
        for (uint64_t n = next_random(w) % (uint64_t)__builtin_popcountll(ready); n > 0; n--) ready &= ready - 1;
    }
    return (uint32_t)__builtin_ctzll(ready);
}

// A wave that cannot go on alone although some lanes wait for the others: they wait in different places.
[[noreturn]] void fail_diverged(Worker& w, uint32_t wave) {
    Wave& v = w.waves[wave];
    uint32_t at = (uint32_t)__builtin_ctzll(v.at_op), other = (uint32_t)__builtin_ctzll(v.at_barrier);
    fail(w, place(w, (wave << w.shift) + at) + ": waits at " + name_of(v.op) + " for the other lanes of its wave, but thread " +
                std::to_string((wave << w.shift) + other) + " waits at a barrier");
}

// The thread to run next; max_threads when all have returned.
uint32_t next_thread(Worker& w) {
    uint32_t wave = w.current >> w.shift;
    if (w.seeded && w.n_waves > 1) wave = (uint32_t)(next_random(w) % w.n_waves);
    for (uint32_t i = 0; i < w.n_waves; i++) {
        Wave& v = w.waves[wave];
        if (v.ready) return (wave << w.shift) + pick(w, v.ready);
        if (v.at_op) fail_diverged(w, wave);
        if (++wave == w.n_waves) wave = 0;
    }
    if (w.n_live == 0) return max_threads;
    fail(w, place(w, w.current) + ": no thread can go on");
}

void finish_op(Wave& v) {
    v.active[v.generation] = v.ready = v.at_op;
    v.at_op = 0;
    v.generation ^= 1;
}

void open_barrier(Worker& w) {
    w.n_at_barrier = 0;
    for (uint32_t i = 0; i < w.n_waves; i++) {
        w.waves[i].ready |= w.waves[i].at_barrier;
        w.waves[i].at_barrier = 0;
    }
}

void fibre_main() {
    Worker& w = *running;
    uint32_t me = w.current;
    for (;;) {
        w.block->thunk(w.block->args);
        Wave& v = w.waves[me >> w.shift];
        uint64_t bit = 1ull << (me & w.lane_mask);
        v.live &= ~bit;
        v.ready &= ~bit;
        w.n_live--;
        if (v.at_op && v.at_op == v.live) finish_op(v);
        if (w.n_live && w.n_at_barrier == w.n_live) open_barrier(w);
        uint32_t next = next_thread(w);
        uint16_t stack = w.stack_of[me];
        if (next == max_threads) {
            w.free_stacks.push_back(stack);
            stop(w);
        }
        enter(w, next);
        if (!w.sp[next]) {
            // Begins on the stack of the thread that has ended: kernels without waits never switch.
            w.sp[next] = w.main_sp;
            w.stack_of[next] = stack;
            me = next;
            continue;
        }
        w.free_stacks.push_back(stack);
        void* dead;
        lc_switch(&dead, w.sp[next]);
    }
}

void* begin(Worker& w, uint32_t thread) {
    uint16_t stack = take_stack(w);
    w.stack_of[thread] = stack;
    // Stacks begin at different offsets in their pages, else all would share the same few cache lines.
    auto* top = (uint64_t*)(w.stack_tops[stack] - 64 - (stack % 16) * 256);
    top[1] = 0;
    top[0] = (uint64_t)&fibre_main;
    for (int i = 1; i <= 6; i++) top[-i] = 0;
    return top - 6;
}

void switch_from(Worker& w, uint32_t me) {
    uint32_t next = next_thread(w);
    if (next == me) return;
    enter(w, next);
    void* sp = w.sp[next] ? w.sp[next] : begin(w, next);
    // Any value but null until it waits for the first time.
    w.sp[next] = sp;
    lc_switch(&w.sp[me], sp);
}

Worker& require_running() {
    if (!running) {
        fprintf(stderr, "standin: a wave or barrier function was called outside of a kernel\n");
        abort();
    }
    return *running;
}

// Waits for all lanes of the wave that have not returned; gives the generation in which their values lie.
uint32_t wave_op(Worker& w, Op op, const void* site, uint32_t value, uint32_t target) {
    uint32_t me = w.current, lane = me & w.lane_mask;
    Wave& v = w.waves[me >> w.shift];
    if (!v.at_op) {
        v.op = op;
        v.op_site = site;
    } else if (v.op != op || v.op_site != site) {
        uint32_t first = (w.current & ~w.lane_mask) + (uint32_t)__builtin_ctzll(v.at_op);
        fail(w, place(w, me) + ": waits at " + name_of(op) + ", but thread " + std::to_string(first) + " of its wave waits at " +
                    (v.op != op ? name_of(v.op) : (std::string("another ") + name_of(op)).c_str()));
    }
    uint32_t g = v.generation;
    v.value[g][lane] = value;
    v.target[g][lane] = target;
    uint64_t bit = 1ull << lane;
    v.ready &= ~bit;
    v.at_op |= bit;
    if (v.at_op == v.live) finish_op(v);
    switch_from(w, me);
    return g;
}

constexpr int fault_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
struct sigaction previous_actions[4];

// Clang's checks trap with `ud1 N(%eax), %eax`: N says which.
const char* trapped(const unsigned char* at) {
    if (at[0] == 0x67 && at[1] == 0x0F && at[2] == 0xB9 && at[3] == 0x40) {
        switch (at[4]) {
            case 18: return "an index is outside of its array";
            case 20: return "a shift by as many bits as the value has, or more";
            case 22: return "an access to an address that is no multiple of its type's alignment";
        }
    }
    return "an invalid instruction";
}

std::string describe(const Worker& w, int signal, const siginfo_t* info) {
    if (signal == SIGILL) return trapped((const unsigned char*)info->si_addr);
    if (signal == SIGFPE) return "an integer division by zero, or its result is too large";
    for (char* top : w.stack_tops)
        if ((char*)info->si_addr < top - stack_bytes && (char*)info->si_addr >= top - stack_bytes - page_bytes)
            return "its local variables need more than " + std::to_string(stack_bytes) + " bytes";
    return memory::describe_fault(info->si_addr);
}

void on_fault(int signal, siginfo_t* info, void* context) {
    if (Worker* w = running) {
        auto* c = (ucontext_t*)context;
        w->failed = true;
        w->error = place(*w, w->current) + ": " + describe(*w, signal, info);
        // Go on as if the thread had switched to the scheduler.
        c->uc_mcontext.gregs[REG_RSP] = (greg_t)w->main_sp;
        c->uc_mcontext.gregs[REG_RIP] = (greg_t)&lc_switch_resume;
        return;
    }
    size_t which = 0;
    while (fault_signals[which] != signal) which++;
    struct sigaction& previous = previous_actions[which];
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(signal, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(signal);
    } else {
        sigaction(signal, &previous, nullptr);
    }
}
}  // namespace

void install_fault_handler() {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (size_t i = 0; i < 4; i++) sigaction(fault_signals[i], &action, &previous_actions[i]);
}

bool run_block(const Block& block, std::string& error) {
    if (!owned_worker) owned_worker = std::make_unique<Worker>();
    Worker& w = *owned_worker;
    w.block = &block;
    w.n_threads = (uint32_t)block.block.count();
    w.shift = (uint32_t)__builtin_ctz(block.wave_size);
    w.lane_mask = block.wave_size - 1;
    w.n_waves = (w.n_threads + w.lane_mask) >> w.shift;
    w.n_live = w.n_threads;
    w.n_at_barrier = 0;
    w.flat = block.block.y * block.block.z == 1;
    w.seeded = block.seed != 0;
    w.state = block.state;
    w.failed = false;
    w.random = (block.seed + 1) * 0x9E3779B97F4A7C15ull ^ (block.index + 1) * 0xD1B54A32D192ED03ull;
    if (!w.random) w.random = 1;
    memset(w.sp, 0, w.n_threads * sizeof w.sp[0]);
    for (uint32_t i = 0; i < w.n_waves; i++) {
        Wave& v = w.waves[i];
        uint32_t lanes = w.n_threads - (i << w.shift) < block.wave_size ? w.n_threads - (i << w.shift) : block.wave_size;
        v.live = v.ready = lanes == 64 ? ~0ull : (1ull << lanes) - 1;
        v.at_op = v.at_barrier = 0;
        v.generation = 0;
    }
    State& s = *block.state;
    uint64_t i = block.index;
    s = State{{0, 0, 0},
              {(uint32_t)(i % block.grid.x), (uint32_t)(i / block.grid.x % block.grid.y), (uint32_t)(i / block.grid.x / block.grid.y)},
              {block.block.x, block.block.y, block.block.z},
              {block.grid.x, block.grid.y, block.grid.z},
              0,
              block.wave_size};
    w.current = 0;
    running = &w;
    uint32_t first = next_thread(w);
    enter(w, first);
    void* sp = begin(w, first);
    w.sp[first] = sp;
    lc_switch(&w.main_sp, sp);
    running = nullptr;
    if (w.failed) {
        error = w.error;
        w.free_stacks.clear();
        for (size_t stack = 0; stack < w.stack_tops.size(); stack++) w.free_stacks.push_back((uint16_t)stack);
    }
    return !w.failed;
}

// ---- what kernels call ----

extern "C" {
#define LC_RT __attribute__((visibility("default"), noinline))

LC_RT void lc_rt_barrier() {
    Worker& w = require_running();
    const void* site = __builtin_return_address(0);
    uint32_t me = w.current;
    Wave& v = w.waves[me >> w.shift];
    if (!v.at_barrier) {
        v.barrier_site = site;
    } else if (v.barrier_site != site) {
        fail(w, place(w, me) + ": waits at another barrier than thread " +
                    std::to_string((me & ~w.lane_mask) + (uint32_t)__builtin_ctzll(v.at_barrier)) + " of its wave");
    }
    uint64_t bit = 1ull << (me & w.lane_mask);
    v.ready &= ~bit;
    v.at_barrier |= bit;
    if (++w.n_at_barrier == w.n_live) open_barrier(w);
    switch_from(w, me);
}

LC_RT void lc_rt_wave_barrier() { wave_op(require_running(), Op::wave_barrier, __builtin_return_address(0), 0, 0); }

LC_RT int lc_rt_bpermute(int byte_index, int value) {
    Worker& w = require_running();
    Wave& v = w.waves[w.current >> w.shift];
    uint32_t g = wave_op(w, Op::bpermute, __builtin_return_address(0), (uint32_t)value, 0);
    uint32_t from = ((uint32_t)byte_index >> 2) & w.lane_mask;
    return v.active[g] >> from & 1 ? (int)v.value[g][from] : 0;
}

LC_RT int lc_rt_permute(int byte_index, int value) {
    Worker& w = require_running();
    Wave& v = w.waves[w.current >> w.shift];
    uint32_t lane = w.current & w.lane_mask;
    uint32_t g = wave_op(w, Op::permute, __builtin_return_address(0), (uint32_t)value, ((uint32_t)byte_index >> 2) & w.lane_mask);
    uint32_t out = 0;
    for (uint32_t from = 0; from <= w.lane_mask; from++)
        if ((v.active[g] >> from & 1) && v.target[g][from] == lane) out = v.value[g][from];
    return (int)out;
}

LC_RT int lc_rt_first_lane(int value) {
    Worker& w = require_running();
    Wave& v = w.waves[w.current >> w.shift];
    uint32_t g = wave_op(w, Op::first_lane, __builtin_return_address(0), (uint32_t)value, 0);
    return (int)v.value[g][__builtin_ctzll(v.active[g])];
}

LC_RT int lc_rt_read_lane(int value, int lane) {
    Worker& w = require_running();
    Wave& v = w.waves[w.current >> w.shift];
    uint32_t g = wave_op(w, Op::read_lane, __builtin_return_address(0), (uint32_t)value, 0);
    uint32_t from = (uint32_t)lane & w.lane_mask;
    return v.active[g] >> from & 1 ? (int)v.value[g][from] : 0;
}

LC_RT unsigned long long lc_rt_ballot(int predicate) {
    Worker& w = require_running();
    Wave& v = w.waves[w.current >> w.shift];
    uint32_t g = wave_op(w, Op::ballot, __builtin_return_address(0), predicate != 0, 0);
    uint64_t out = 0;
    for (uint64_t left = v.active[g]; left; left &= left - 1)
        if (v.value[g][__builtin_ctzll(left)]) out |= left & -left;
    return out;
}
}
}  // namespace simt
