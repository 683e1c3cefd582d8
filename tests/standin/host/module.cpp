#include "module.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unistd.h>
#include <vector>

#include "config.hpp"

namespace module {

struct Range {
    unsigned char *start, *stop;
};

struct Kernel {
    simt::Thunk thunk;
    Range shared[2];
};

// One load of the library. Shared memory lies in the library's own static variables, so one copy runs one block at a
// time; blocks run side by side in several copies.
struct Copy {
    void* library = nullptr;
    simt::State* state = nullptr;
    bool busy = false;
    std::map<std::string, Kernel> kernels;
};

struct Module {
    std::vector<char> code;
    int device;
    std::mutex lock;
    std::condition_variable freed;
    std::vector<std::unique_ptr<Copy>> copies;
    std::vector<std::unique_ptr<Function>> functions;
};

struct Function {
    Module* module;
    std::string name;
    std::vector<unsigned> sizes;
};

namespace {
std::mutex lock;
auto& modules = *new std::set<Module*>;
auto& functions = *new std::set<const Function*>;
std::atomic<uint64_t> n_loads;

// A file of its own for each load: the loader gives the same library for the same file or name.
std::unique_ptr<Copy> open_copy(const Module& m) {
    const char* folder = getenv("TMPDIR");
    std::string path = std::string(folder && *folder ? folder : "/tmp") + "/layercake-standin-" + std::to_string(getpid()) + "-" +
                       std::to_string(++n_loads) + ".so";
    int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    if (file < 0) {
        fprintf(stderr, "standin: cannot write %s: %s\n", path.c_str(), strerror(errno));
        return nullptr;
    }
    size_t written = 0;
    while (written < m.code.size()) {
        ssize_t n = write(file, m.code.data() + written, m.code.size() - written);
        if (n <= 0) break;
        written += (size_t)n;
    }
    close(file);
    auto copy = std::make_unique<Copy>();
    copy->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    unlink(path.c_str());
    if (!copy->library) {
        fprintf(stderr, "standin: cannot load compiled kernels: %s\n", dlerror());
        return nullptr;
    }
    auto get_state = (simt::State * (*)()) dlsym(copy->library, "__lc_get_state");
    if (!get_state) return nullptr;
    copy->state = get_state();
    return copy;
}

// A free copy; a new one while there are fewer than threads. Null: none is free, and `wait` is false.
Copy* take(Module& m, bool wait) {
    std::unique_lock hold(m.lock);
    for (;;) {
        for (auto& c : m.copies)
            if (!c->busy) {
                c->busy = true;
                return c.get();
            }
        if (m.copies.size() < config().n_threads) {
            if (auto c = open_copy(m)) {
                c->busy = true;
                m.copies.push_back(std::move(c));
                return m.copies.back().get();
            }
        }
        if (!wait) return nullptr;
        m.freed.wait(hold);
    }
}

// Only the thread that has taken the copy may ask.
const Kernel& kernel_of(Copy& c, const std::string& name) {
    auto known = c.kernels.find(name);
    if (known != c.kernels.end()) return known->second;
    Kernel k{};
    k.thunk = (simt::Thunk)dlsym(c.library, ("__lc_thunk_" + name).c_str());
    ((void (*)(Range*))dlsym(c.library, ("__lc_shared_" + name).c_str()))(k.shared);
    return c.kernels.emplace(name, k).first->second;
}

void give_back(Module& m, Copy* c) {
    std::lock_guard hold(m.lock);
    c->busy = false;
    m.freed.notify_one();
}

struct Job {
    Function* function;
    simt::Dim grid, block;
    void** args;
    uint32_t wave_size;
    std::atomic<uint64_t> next{0};
    uint64_t n_blocks;
    std::mutex lock;
    std::condition_variable left;
    int n_helpers = 0;
    std::atomic<bool> failed{false};
    std::string error;
};

void work_on(Job& job, bool wait) {
    Module& m = *job.function->module;
    Copy* copy = take(m, wait);
    if (!copy) return;
    const Kernel& kernel = kernel_of(*copy, job.function->name);
    uint64_t seed = config().seed;
    while (!job.failed) {
        uint64_t index = job.next++;
        if (index >= job.n_blocks) break;
        // Another order of the blocks, too.
        if (seed) index = (seed & 1 ? job.n_blocks - 1 - index : index) + seed % job.n_blocks;
        if (index >= job.n_blocks) index -= job.n_blocks;
        // All ones: NaN as a number, so that a read of what nobody has written shows.
        for (const Range& r : kernel.shared) memset(r.start, 0xFF, (size_t)(r.stop - r.start));
        std::string error;
        simt::Block block{job.function->name.c_str(), kernel.thunk, job.args, copy->state, job.grid, job.block, index, job.wave_size, seed};
        if (!simt::run_block(block, error)) {
            std::lock_guard hold(job.lock);
            if (!job.failed) job.error = error;
            job.failed = true;
        }
    }
    give_back(m, copy);
}

// Threads that help any launch with its blocks.
struct Helpers {
    std::mutex lock;
    std::condition_variable changed;
    std::deque<std::shared_ptr<Job>> jobs;

    explicit Helpers(uint32_t n) {
        for (uint32_t i = 0; i < n; i++) std::thread([this] { run(); }).detach();
    }
    void run() {
        for (;;) {
            std::shared_ptr<Job> job;
            {
                std::unique_lock hold(lock);
                changed.wait(hold, [&] { return !jobs.empty(); });
                job = jobs.front();
                jobs.pop_front();
                std::lock_guard hold_job(job->lock);
                // Nothing left to do: the launch may have returned, its arguments are gone.
                if (job->next >= job->n_blocks || job->failed) continue;
                job->n_helpers++;
            }
            work_on(*job, false);
            std::lock_guard hold_job(job->lock);
            job->n_helpers--;
            job->left.notify_all();
        }
    }
};

Helpers& helpers() {
    static auto& h = *new Helpers(config().n_threads - 1);
    return h;
}
}  // namespace

Error load(Module** out, const void* code, int device) {
    const char* elf = (const char*)code;
    if (memcmp(elf, ELFMAG, SELFMAG)) return hipErrorInvalidImage;
    Elf64_Ehdr e;
    memcpy(&e, elf, sizeof e);
    if (e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_machine != EM_X86_64) return hipErrorNoBinaryForGpu;
    auto m = std::make_unique<Module>();
    // The section headers stand last in what linkers write.
    m->code.assign(elf, elf + e.e_shoff + (size_t)e.e_shnum * e.e_shentsize);
    m->device = device;
    auto first = open_copy(*m);
    if (!first) return hipErrorInvalidImage;
    auto* arch = (const char*)dlsym(first->library, arch_symbol);
    const std::string& own = config().devices[(size_t)device].arch;
    if (!arch || arch != own) {
        fprintf(stderr, "standin: code for %s cannot run on device %d, a %s\n", arch ? arch : "no chip", device, own.c_str());
        dlclose(first->library);
        return hipErrorNoBinaryForGpu;
    }
    m->copies.push_back(std::move(first));
    std::lock_guard hold(lock);
    modules.insert(m.get());
    *out = m.release();
    return hipSuccess;
}

Error unload(Module* m) {
    std::lock_guard hold(lock);
    if (!modules.erase(m)) return hipErrorInvalidHandle;
    for (auto& f : m->functions) functions.erase(f.get());
    for (auto& c : m->copies) dlclose(c->library);
    delete m;
    return hipSuccess;
}

Error find(Function** out, Module* m, const char* name) {
    std::lock_guard hold(lock);
    if (!modules.count(m)) return hipErrorInvalidHandle;
    auto sizes = (const unsigned* (*)())dlsym(m->copies[0]->library, (std::string("__lc_sizes_") + name).c_str());
    if (!sizes) return hipErrorNotFound;
    const unsigned* list = sizes();
    auto f = std::make_unique<Function>();
    f->module = m;
    f->name = name;
    f->sizes.assign(list + 1, list + 1 + list[0]);
    functions.insert(f.get());
    *out = f.get();
    m->functions.push_back(std::move(f));
    return hipSuccess;
}

bool is_function(const Function* f) {
    std::lock_guard hold(lock);
    return functions.count(f) != 0;
}

int device_of(const Function* f) { return f->module->device; }
std::string name_of(const Function* f) { return f->name; }

Arguments copy_arguments(const Function* f, void** params) {
    Arguments a;
    size_t n = f->sizes.size(), bytes = 0;
    for (unsigned size : f->sizes) bytes += (size + 15) / 16 * 16;
    a.bytes = std::make_unique<char[]>(bytes + 16);
    a.pointers = std::make_unique<void*[]>(n + 1);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(a.bytes.get() + at, params[i], f->sizes[i]);
        a.pointers[i] = a.bytes.get() + at;
        at += (f->sizes[i] + 15) / 16 * 16;
    }
    return a;
}

bool run(Function* f, simt::Dim grid, simt::Dim block, void** args, std::string& error) {
    auto job = std::make_shared<Job>();
    job->function = f;
    job->grid = grid;
    job->block = block;
    job->args = args;
    job->wave_size = config().devices[(size_t)f->module->device].wave_size;
    job->n_blocks = grid.count();
    uint64_t n_helpers = std::min<uint64_t>(job->n_blocks, config().n_threads) - 1;
    if (n_helpers > 0) {
        Helpers& h = helpers();
        std::lock_guard hold(h.lock);
        for (uint64_t i = 0; i < n_helpers; i++) h.jobs.push_back(job);
        n_helpers == 1 ? h.changed.notify_one() : h.changed.notify_all();
    }
    work_on(*job, true);
    std::unique_lock hold(job->lock);
    job->left.wait(hold, [&] { return job->n_helpers == 0; });
    error = job->error;
    return !job->failed;
}
}  // namespace module
