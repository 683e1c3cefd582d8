#include "stream.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "config.hpp"
#include "device.hpp"

namespace stream {

using Clock = std::chrono::steady_clock;

struct Stream {
    int device;
    std::mutex lock;
    std::condition_variable changed;
    std::deque<std::function<void()>> queue;
    bool busy = false, ending = false;
    uint64_t random;
    std::thread thread;
};

struct Event {
    int device;
    bool timed;
    std::mutex lock;
    std::condition_variable changed;
    uint64_t recorded = 0, done = 0;
    Clock::time_point at;

    void finish(uint64_t generation) {
        std::lock_guard hold(lock);
        if (generation > done) done = generation, at = Clock::now();
        changed.notify_all();
    }
    void wait_for(uint64_t generation) {
        std::unique_lock hold(lock);
        changed.wait(hold, [&] { return done >= generation; });
    }
};

namespace {
std::mutex lock;
// Never destroyed: stream threads may still run while the process ends.
auto& streams = *new std::unordered_map<void*, std::shared_ptr<Stream>>;
auto& defaults = *new std::map<int, Stream*>;
auto& events = *new std::unordered_map<void*, std::shared_ptr<Event>>;

void run(Stream& s) {
    for (;;) {
        std::function<void()> work;
        {
            std::unique_lock hold(s.lock);
            s.busy = false;
            if (s.queue.empty()) s.changed.notify_all();
            s.changed.wait(hold, [&] { return s.ending || !s.queue.empty(); });
            if (s.queue.empty()) return;
            work = std::move(s.queue.front());
            s.queue.pop_front();
            s.busy = true;
        }
        if (s.random) {
            // Other interleavings of the streams.
            s.random = s.random * 6364136223846793005ull + 1442695040888963407ull;
            uint64_t draw = s.random >> 56;
            if (draw < 16) std::this_thread::sleep_for(std::chrono::microseconds(draw * 20));
            else if (draw < 128) std::this_thread::yield();
        }
        work();
    }
}

void push(Stream* s, std::function<void()> work) {
    std::lock_guard hold(s->lock);
    s->queue.push_back(std::move(work));
    s->changed.notify_all();
}

std::shared_ptr<Event> event_of(void* handle) {
    std::lock_guard hold(lock);
    auto it = events.find(handle);
    return it == events.end() ? nullptr : it->second;
}

Stream* create_locked(int device) {
    auto s = std::make_shared<Stream>();
    s->device = device;
    s->random = config().seed ? config().seed * 2654435761u + streams.size() + 1 : 0;
    s->thread = std::thread([raw = s.get()] { run(*raw); });
    streams[s.get()] = s;
    return s.get();
}
}  // namespace

Stream* create(int device) {
    std::lock_guard hold(lock);
    return create_locked(device);
}

Stream* find(void* handle) {
    std::lock_guard hold(lock);
    if (!handle) {
        Stream*& s = defaults[device::current()];
        if (!s) s = create_locked(device::current());
        return s;
    }
    auto it = streams.find(handle);
    return it == streams.end() ? nullptr : it->second.get();
}

int device_of(const Stream* s) { return s->device; }

Error destroy(void* handle) {
    std::shared_ptr<Stream> s;
    {
        std::lock_guard hold(lock);
        auto it = streams.find(handle);
        if (it == streams.end()) return hipErrorInvalidHandle;
        s = it->second;
        streams.erase(it);
    }
    {
        std::lock_guard hold(s->lock);
        s->ending = true;
        s->changed.notify_all();
    }
    s->thread.join();
    return hipSuccess;
}

void enqueue(Stream* s, std::function<void()> work) {
    int ordinal = s->device;
    push(s, [ordinal, work = std::move(work)] {
        if (device::state(ordinal) == hipSuccess) work();
    });
}

void synchronize(Stream* s) {
    std::unique_lock hold(s->lock);
    s->changed.wait(hold, [&] { return s->queue.empty() && !s->busy; });
}

bool idle(Stream* s) {
    std::lock_guard hold(s->lock);
    return s->queue.empty() && !s->busy;
}

void synchronize_device(int ordinal) {
    std::vector<std::shared_ptr<Stream>> all;
    {
        std::lock_guard hold(lock);
        for (auto& [handle, s] : streams)
            if (s->device == ordinal) all.push_back(s);
    }
    for (auto& s : all) synchronize(s.get());
}

Event* create_event(int device, unsigned flags) {
    auto e = std::make_shared<Event>();
    e->device = device;
    e->timed = !(flags & 2);
    std::lock_guard hold(lock);
    events[e.get()] = e;
    return e.get();
}

Error destroy_event(void* handle) {
    std::lock_guard hold(lock);
    return events.erase(handle) ? hipSuccess : hipErrorInvalidHandle;
}

int device_of_event(void* handle) {
    auto e = event_of(handle);
    return e ? e->device : -1;
}

Error record(void* handle, Stream* s) {
    auto e = event_of(handle);
    if (!e || e->device != s->device) return hipErrorInvalidHandle;
    uint64_t generation;
    {
        std::lock_guard hold(e->lock);
        generation = ++e->recorded;
    }
    // Also when the device has failed: nobody may wait for ever.
    push(s, [e, generation] { e->finish(generation); });
    return hipSuccess;
}

Error wait(Stream* s, void* handle) {
    auto e = event_of(handle);
    if (!e) return hipErrorInvalidHandle;
    uint64_t generation;
    {
        std::lock_guard hold(e->lock);
        generation = e->recorded;
    }
    push(s, [e, generation] { e->wait_for(generation); });
    return hipSuccess;
}

Error synchronize_event(void* handle) {
    auto e = event_of(handle);
    if (!e) return hipErrorInvalidHandle;
    uint64_t generation;
    {
        std::lock_guard hold(e->lock);
        generation = e->recorded;
    }
    e->wait_for(generation);
    return hipSuccess;
}

Error query_event(void* handle) {
    auto e = event_of(handle);
    if (!e) return hipErrorInvalidHandle;
    std::lock_guard hold(e->lock);
    return e->done == e->recorded ? hipSuccess : hipErrorNotReady;
}

Error elapsed(float* ms, void* start, void* stop) {
    auto a = event_of(start), b = event_of(stop);
    if (!a || !b || !a->timed || !b->timed) return hipErrorInvalidHandle;
    Clock::time_point from;
    {
        std::lock_guard hold(a->lock);
        if (!a->recorded) return hipErrorInvalidHandle;
        if (a->done != a->recorded) return hipErrorNotReady;
        from = a->at;
    }
    std::lock_guard hold(b->lock);
    if (!b->recorded) return hipErrorInvalidHandle;
    if (b->done != b->recorded) return hipErrorNotReady;
    *ms = std::chrono::duration<float, std::milli>(b->at - from).count();
    return hipSuccess;
}
}  // namespace stream
