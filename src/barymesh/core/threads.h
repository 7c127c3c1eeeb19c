// A small pool of threads, shared by all kernels.
#pragma once

#include "arrays.h"

namespace barymesh {

// The number of threads that kernels may use, the calling one included.
void set_threads(int count);
int threads();

using Part = void (*)(void* context, Index begin, Index end);

// Calls part(context, begin, end) for ranges that cover 0 to count, on as many threads as the work is worth.
// `nanoseconds`: the time that one item takes, roughly.
void run_parts(Index count, double nanoseconds, Part part, void* context);

// f(begin, end) for ranges that cover 0 to count. The result must not depend on the ranges.
template <class F>
INLINE void parallel(Index count, double nanoseconds, const F& f) {
    run_parts(
        count, nanoseconds,
        [](void* context, Index begin, Index end) { (*static_cast<const F*>(context))(begin, end); },
        const_cast<F*>(&f));
}

}  // namespace barymesh
