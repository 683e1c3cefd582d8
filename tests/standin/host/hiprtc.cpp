// hiprtc: compiles a program for the host with clang, each kernel with a function that calls it from HIP's array of
// pointers to arguments.
#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <mutex>
#include <set>
#include <spawn.h>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "config.hpp"
#include "hip.hpp"
#include "module.hpp"

#ifndef LC_CLANG
#error "LC_CLANG: the compiler for kernels"
#endif

enum Result : int {
    HIPRTC_SUCCESS = 0,
    HIPRTC_ERROR_PROGRAM_CREATION_FAILURE = 2,
    HIPRTC_ERROR_INVALID_INPUT = 3,
    HIPRTC_ERROR_INVALID_PROGRAM = 4,
    HIPRTC_ERROR_INVALID_OPTION = 5,
    HIPRTC_ERROR_COMPILATION = 6,
    HIPRTC_ERROR_INTERNAL_ERROR = 11,
};

asm(R"(
.section .rodata
lc_preamble:
.incbin "preamble.hpp"
lc_preamble_end:
.previous
)");
extern "C" const char lc_preamble[] __attribute__((visibility("hidden")));
extern "C" const char lc_preamble_end[] __attribute__((visibility("hidden")));

namespace {

struct Program {
    std::string source, name, log, code;
    std::vector<std::pair<std::string, std::string>> headers;
};

constexpr const char *mark = "__lc_mark_", *kernel_mark = "__lc_mark_global__", *shared_mark = "__lc_mark_shared__";

bool write_file(const std::string& path, const std::string& text) {
    std::ofstream out(path, std::ios::binary);
    out << text;
    return (bool)out.flush();
}

std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

// A folder that goes with all that lies in it.
struct Folder {
    std::string path;
    Folder() {
        const char* base = getenv("TMPDIR");
        std::string pattern = std::string(base && *base ? base : "/tmp") + "/layercake-standin-XXXXXX";
        if (mkdtemp(pattern.data())) path = pattern;
    }
    ~Folder() {
        if (path.empty()) return;
        if (DIR* d = opendir(path.c_str())) {
            while (dirent* e = readdir(d)) unlink((path + "/" + e->d_name).c_str());
            closedir(d);
        }
        rmdir(path.c_str());
    }
};

// The exit status; what the command says is added to `log`.
int run(const std::vector<std::string>& command, const std::string& log_path, std::string& log) {
    std::vector<char*> argv;
    for (auto& word : command) argv.push_back((char*)word.c_str());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    pid_t child;
    int error = posix_spawnp(&child, argv[0], &files, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    if (error) {
        log += "standin: cannot run " + command[0] + ": " + strerror(error) + " (install the package clang)\n";
        return -1;
    }
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    log += read_file(log_path);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

// The name of the kernel whose mark ends at `at`: the word before the first '(' that opens its parameters.
std::string kernel_name(const std::string& text, size_t at) {
    while (at < text.size()) {
        while (at < text.size() && !is_word(text[at])) {
            if (text[at] == ';' || text[at] == '{') return "";
            at++;
        }
        size_t start = at;
        while (at < text.size() && is_word(text[at])) at++;
        std::string word = text.substr(start, at - start);
        size_t after = at;
        while (after < text.size() && isspace((unsigned char)text[after])) after++;
        if (after >= text.size() || text[after] != '(') continue;
        if (word != "__attribute__" && word != "alignas") return word;
        int depth = 0;
        for (at = after; at < text.size(); at++) {
            if (text[at] == '(') depth++;
            if (text[at] == ')' && --depth == 0) break;
        }
    }
    return "";
}

// Where the function whose text begins at `at` ends: after its body's last brace, or at a ';' before any body.
size_t end_of_function(const std::string& text, size_t at) {
    int depth = 0;
    for (; at < text.size(); at++) {
        if (text[at] == ';' && depth == 0) return at;
        if (text[at] == '{') depth++;
        if (text[at] == '}' && --depth == 0) return at;
    }
    return at;
}

// Gives the kernels a thunk each and the compiler attributes in place of the marks.
std::string with_thunks(const std::string& text, const std::string& arch) {
    std::set<std::string> kernels;
    std::string out, inside;
    size_t done = 0, end = 0;
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, done)) {
        out.append(text, done, at - done);
        if (at >= end) inside.clear();
        if (text.compare(at, strlen(kernel_mark), kernel_mark) == 0) {
            done = at + strlen(kernel_mark);
            std::string name = kernel_name(text, done);
            if (!name.empty()) {
                kernels.insert(name);
                inside = name;
                end = end_of_function(text, done);
            }
            out += "__attribute__((visibility(\"default\"), used))";
        } else if (text.compare(at, strlen(shared_mark), shared_mark) == 0) {
            done = at + strlen(shared_mark);
            // `used` keeps the optimiser from believing that only one thread of control writes it.
            out += "static __attribute__((section(\"lcshared" + (inside.empty() ? "" : "_" + inside) + "\"), used))";
        } else {
            done = at + strlen(mark);
            out += mark;
        }
    }
    out.append(text, done, std::string::npos);
    out += "\n# 1 \"thunks\"\n";
    const std::string exported = "extern \"C\" __attribute__((visibility(\"default\"))) ", hidden = "extern \"C\" __attribute__((visibility(\"hidden\"), weak)) ";
    out += "extern \"C\" __attribute__((visibility(\"default\"), used)) const char " + std::string(module::arch_symbol) + "[] = \"" + arch + "\";\n";
    for (auto& name : kernels) {
        std::string own = "lcshared_" + name;
        out += exported + "void __lc_thunk_" + name + "(void** p) { __lc_call(&" + name + ", p); }\n";
        out += exported + "const unsigned* __lc_sizes_" + name + "() { return __lc_sizes(&" + name + "); }\n";
        out += hidden + "unsigned char __start_" + own + "[], __stop_" + own + "[];\n";
        out += exported + "void __lc_shared_" + name + "(__lc_Range* ranges) { ranges[0] = {__start_lcshared, __stop_lcshared}; ranges[1] = {__start_" +
               own + ", __stop_" + own + "}; }\n";
    }
    return out;
}

Result compile(Program& p, const std::vector<std::string>& options) {
    std::string arch;
    std::vector<std::string> passed;
    std::string standard = "-std=c++17";
    for (size_t i = 0; i < options.size(); i++) {
        const std::string& o = options[i];
        for (const char* name : {"--gpu-architecture=", "--offload-arch="})
            if (o.compare(0, strlen(name), name) == 0) arch = o.substr(strlen(name));
        if ((o == "--gpu-architecture" || o == "--offload-arch") && i + 1 < options.size()) arch = options[++i];
        if (o.compare(0, 5, "-std=") == 0 || o.compare(0, 6, "--std=") == 0) standard = "-std=" + o.substr(o.find('=') + 1);
        if ((o == "-D" || o == "-U") && i + 1 < options.size()) passed.push_back(o + options[++i]);
        else if (o.compare(0, 2, "-D") == 0 || o.compare(0, 2, "-U") == 0) passed.push_back(o);
    }
    if (arch.empty()) arch = config().devices.empty() ? "gfx1100" : config().devices[0].arch;
    // gfx90a:sramecc+:xnack- names a chip with its features.
    arch = arch.substr(0, arch.find(':'));
    if (arch.compare(0, 3, "gfx") != 0) {
        p.log = "error: unknown target '" + arch + "'\n";
        return HIPRTC_ERROR_INVALID_OPTION;
    }
    const std::string& fail = config().fail_compile;
    if (!fail.empty() && (p.source.find(fail) != std::string::npos || p.name.find(fail) != std::string::npos)) {
        p.log = p.name + ":1:1: error: the compilation fails, as LAYERCAKE_STANDIN_FAIL_COMPILE says\n";
        return HIPRTC_ERROR_COMPILATION;
    }
    Folder folder;
    if (folder.path.empty()) {
        p.log = "standin: cannot create a temporary folder\n";
        return HIPRTC_ERROR_INTERNAL_ERROR;
    }
    auto file = [&](const std::string& name) { return folder.path + "/" + name; };
    std::string preamble(lc_preamble, (size_t)(lc_preamble_end - lc_preamble));
    preamble += "#define __" + arch + "__ 1\n#define __AMDGCN_WAVEFRONT_SIZE__ " + std::to_string(wave_size_of(arch)) + "\n";
    bool written = write_file(file("lc_preamble.hpp"), preamble) &&
                   write_file(file("program.cpp"), "# 1 \"" + p.name + "\"\n" + p.source);
    for (auto& [name, text] : p.headers) written = written && write_file(file(name), text);
    const std::string compiler = config().compiler.empty() ? LC_CLANG : config().compiler;
    std::vector<std::string> expand = {compiler, "-x", "c++", standard, "-E", "-w", "-I", folder.path, "-include", file("lc_preamble.hpp")};
    expand.insert(expand.end(), passed.begin(), passed.end());
    expand.insert(expand.end(), {file("program.cpp"), "-o", file("expanded.cpp")});
    if (!written || run(expand, file("log"), p.log) != 0) return HIPRTC_ERROR_COMPILATION;
    if (!write_file(file("kernels.ii"), with_thunks(read_file(file("expanded.cpp")), arch))) return HIPRTC_ERROR_INTERNAL_ERROR;
    std::vector<std::string> build = {compiler, "-x", "c++-cpp-output", standard, "-O2", "-march=native", "-fPIC", "-shared", "-nostdinc",
                                      "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-fno-math-errno", "-ffp-contract=off",
                                      "-Xclang", "-ffloat16-excess-precision=none",
"-fno-plt", "-fstack-clash-protection", "-Wno-unknown-attributes", "-Wno-unused-command-line-argument",
                                      file("kernels.ii"), "-o", file("kernels.so"), "-lm"};
    if (config().checks) build.insert(build.end(), {"-fsanitize=array-bounds,alignment,shift-exponent", "-fsanitize-trap=all"});
    if (run(build, file("log"), p.log) != 0) return HIPRTC_ERROR_COMPILATION;
    p.code = read_file(file("kernels.so"));
    return HIPRTC_SUCCESS;
}

std::mutex lock;
auto& programs = *new std::set<Program*>;

Program* program_of(void* handle) {
    std::lock_guard hold(lock);
    return programs.count((Program*)handle) ? (Program*)handle : nullptr;
}
}  // namespace

HIP_EXPORT Result hiprtcVersion(int* major, int* minor) {
    if (!major || !minor) return HIPRTC_ERROR_INVALID_INPUT;
    // Real hiprtc of ROCm 5 to 7 says this of itself.
    *major = 9;
    *minor = 0;
    return HIPRTC_SUCCESS;
}

HIP_EXPORT Result hiprtcCreateProgram(void** out, const char* source, const char* name, int n_headers, const char** headers, const char** names) {
    if (!out || !source || n_headers < 0 || (n_headers > 0 && (!headers || !names))) return HIPRTC_ERROR_INVALID_INPUT;
    auto* p = new Program{source, name && *name ? name : "program", "", "", {}};
    for (int i = 0; i < n_headers; i++) p->headers.emplace_back(names[i], headers[i]);
    std::lock_guard hold(lock);
    programs.insert(p);
    *out = p;
    return HIPRTC_SUCCESS;
}

HIP_EXPORT Result hiprtcDestroyProgram(void** handle) {
    if (!handle) return HIPRTC_ERROR_INVALID_INPUT;
    std::lock_guard hold(lock);
    if (!programs.erase((Program*)*handle)) return HIPRTC_ERROR_INVALID_PROGRAM;
    delete (Program*)*handle;
    *handle = nullptr;
    return HIPRTC_SUCCESS;
}

HIP_EXPORT Result hiprtcCompileProgram(void* handle, int n_options, const char** options) {
    Program* p = program_of(handle);
    if (!p) return HIPRTC_ERROR_INVALID_PROGRAM;
    if (config().trace) fprintf(stderr, "standin: hiprtcCompileProgram %s\n", p->name.c_str());
    p->log.clear();
    return compile(*p, std::vector<std::string>(options, options + n_options));
}

HIP_EXPORT Result hiprtcGetProgramLogSize(void* handle, size_t* bytes) {
    Program* p = program_of(handle);
    if (!p || !bytes) return HIPRTC_ERROR_INVALID_PROGRAM;
    *bytes = p->log.size() + 1;
    return HIPRTC_SUCCESS;
}

HIP_EXPORT Result hiprtcGetProgramLog(void* handle, char* log) {
    Program* p = program_of(handle);
    if (!p || !log) return HIPRTC_ERROR_INVALID_PROGRAM;
    memcpy(log, p->log.c_str(), p->log.size() + 1);
    return HIPRTC_SUCCESS;
}

HIP_EXPORT Result hiprtcGetCodeSize(void* handle, size_t* bytes) {
    Program* p = program_of(handle);
    if (!p || !bytes || p->code.empty()) return HIPRTC_ERROR_INVALID_PROGRAM;
    *bytes = p->code.size();
    return HIPRTC_SUCCESS;
}

HIP_EXPORT Result hiprtcGetCode(void* handle, char* code) {
    Program* p = program_of(handle);
    if (!p || !code || p->code.empty()) return HIPRTC_ERROR_INVALID_PROGRAM;
    memcpy(code, p->code.data(), p->code.size());
    return HIPRTC_SUCCESS;
}

HIP_EXPORT const char* hiprtcGetErrorString(Result result) {
    switch (result) {
        case HIPRTC_SUCCESS: return "HIPRTC_SUCCESS";
        case HIPRTC_ERROR_PROGRAM_CREATION_FAILURE: return "HIPRTC_ERROR_PROGRAM_CREATION_FAILURE";
        case HIPRTC_ERROR_INVALID_INPUT: return "HIPRTC_ERROR_INVALID_INPUT";
        case HIPRTC_ERROR_INVALID_PROGRAM: return "HIPRTC_ERROR_INVALID_PROGRAM";
        case HIPRTC_ERROR_INVALID_OPTION: return "HIPRTC_ERROR_INVALID_OPTION";
        case HIPRTC_ERROR_COMPILATION: return "HIPRTC_ERROR_COMPILATION";
        case HIPRTC_ERROR_INTERNAL_ERROR: return "HIPRTC_ERROR_INTERNAL_ERROR";
    }
    return "HIPRTC_ERROR_UNKNOWN";
}
