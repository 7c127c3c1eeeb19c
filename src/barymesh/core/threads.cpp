// The pool of threads. Idle threads sleep; they spin for a few microseconds only, in case the next kernel follows.
//
// A job is cut into parts, which threads claim one by one. The calling thread claims parts too, and waits only for
// parts that others have claimed: a thread that wakes up late, because another process has its core, delays nothing.
// The calling thread begins at the front and the others at the back, so that rows tend to stay in the cache of a core
// from one kernel to the next.
#include "threads.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#ifndef _WIN32
#include <pthread.h>
#include <signal.h>
#endif

namespace barymesh {
namespace {

// work below this is not worth waking another thread, in nanoseconds
constexpr double LEAST_WORK = 40000.0;
// parts for each thread, so that a slow one takes fewer
constexpr Index PARTS_PER_THREAD = 8;
constexpr Index MOST_PARTS = 0xFFFF;
constexpr int SPINS = 2000;

INLINE void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// A job's number and the parts `first` to `last` that nobody has claimed, in one word that changes at once.
struct Ticket {
    std::uint64_t word;
    static constexpr std::uint64_t FRONT = 1 << 16;
    Index first() const { return (word >> 16) & 0xFFFF; }
    Index last() const { return word & 0xFFFF; }
    bool open() const { return first() < last(); }
};

class Pool {
public:
    void run(Index count, Index parts, int helpers, Part part, void* context) {
        start(helpers);
        count_ = count, parts_ = parts, part_ = part, context_ = context, error_ = nullptr;
        helpers_.store(helpers);
        finished_.store(0, std::memory_order_relaxed);
        ++job_;
        ticket_.store(static_cast<std::uint64_t>(job_) << 32 | static_cast<std::uint64_t>(parts));
        if (sleepers_.load() > 0) {
            wake_.fetch_add(1);
            wake_.notify_all();
        }
        while (claim(true)) {
        }
        for (int spin = 0; finished_.load() < parts && spin < SPINS; ++spin) pause();
        for (int done = finished_.load(); done < parts; done = finished_.load()) finished_.wait(done);
        if (error_) std::rethrow_exception(error_);
    }

private:
    // claims a part of the current job and executes it; false if there is none
    bool claim(bool front) {
        Ticket ticket{ticket_.load()};
        while (ticket.open()) {
            const std::uint64_t rest = front ? ticket.word + Ticket::FRONT : ticket.word - 1;
            if (!ticket_.compare_exchange_weak(ticket.word, rest)) continue;
            const Index parts = parts_, k = front ? ticket.first() : ticket.last() - 1;
            try {
                part_(context_, k * count_ / parts, (k + 1) * count_ / parts);
            } catch (...) {
                const std::lock_guard lock(error_mutex_);
                error_ = std::current_exception();
            }
            if (finished_.fetch_add(1) + 1 == parts) finished_.notify_one();
            return true;
        }
        return false;
    }

    void work(int rank) {
        // fewer threads than were started may be wanted
        const auto wanted = [&] { return rank < helpers_.load() && Ticket{ticket_.load()}.open(); };
        while (true) {
            while (wanted() && claim(false)) {
            }
            const int seen = wake_.load();
            for (int spin = 0; spin < SPINS && !wanted(); ++spin) pause();
            sleepers_.fetch_add(1);
            if (!wanted()) wake_.wait(seen);
            sleepers_.fetch_sub(1);
        }
    }

    void start(int helpers) {
        if (started_ >= helpers) return;
#ifndef _WIN32
        // signals are for the threads of the program
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
#endif
        try {
            for (; started_ < helpers; ++started_) std::thread([this, rank = started_] { work(rank); }).detach();
        } catch (const std::system_error&) {
            // no more can be had here; the calling thread claims what others do not
        }
#ifndef _WIN32
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
#endif
    }

    std::atomic<std::uint64_t> ticket_{0};
    // int is the type that the system can wait on without a detour
    std::atomic<int> finished_{0}, wake_{0}, sleepers_{0}, helpers_{0};
    std::uint32_t job_ = 0;
    int started_ = 0;
    Index count_ = 0, parts_ = 0;
    Part part_ = nullptr;
    void* context_ = nullptr;
    std::mutex error_mutex_;
    std::exception_ptr error_;
};

std::atomic<int> thread_count{1};

// Never destroyed: its threads may outlive the static objects of the process. After a fork the child has none of the
// threads, and makes a pool of its own.
struct Shared {
    std::atomic_flag busy;
    Pool pool;
};
Shared* shared = nullptr;
std::once_flag shared_once;

Shared& shared_pool() {
    std::call_once(shared_once, [] {
        shared = new Shared;
#ifndef _WIN32
        pthread_atfork(nullptr, nullptr, [] { shared = new Shared; });
#endif
    });
    return *shared;
}

}  // namespace

void set_threads(int count) { thread_count.store(count < 1 ? 1 : count); }
int threads() { return thread_count.load(); }

void run_parts(Index count, double nanoseconds, Part part, void* context) {
    const Index worth = static_cast<Index>(static_cast<double>(count) * nanoseconds / LEAST_WORK);
    const Index most = smaller<Index>(smaller<Index>(threads(), count), 1 + worth);
    if (most <= 1) {
        if (count > 0) part(context, 0, count);
        return;
    }
    Shared& mine = shared_pool();
    // one job at a time: a second thread of the program computes by itself
    if (mine.busy.test_and_set()) {
        part(context, 0, count);
        return;
    }
    const Index parts = smaller(smaller(count, PARTS_PER_THREAD * most), MOST_PARTS);
    try {
        mine.pool.run(count, parts, static_cast<int>(most) - 1, part, context);
    } catch (...) {
        mine.busy.clear();
        throw;
    }
    mine.busy.clear();
}

}  // namespace barymesh
