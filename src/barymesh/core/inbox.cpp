// Stores messages, and adds up those received.
//
// The pool holds one message in each row, padded to a multiple of MESSAGE_COLUMNS. A list of rows is always added up in
// its order, so the sum does not depend on what is computed together with it.
#include "messages.h"
#include "simd.h"
#include "threads.h"

#include "kernels.h"

namespace barymesh::INSTRUCTION_SET {
namespace {

// longer lists are added up together with others, in parts of PART messages
constexpr Index FEW = 64, PART = 24;
// lists that are added up together: the messages in a part of them can be numbered with 16 bits
constexpr Index TOGETHER = 1024;
constexpr std::uint16_t NONE = 0xFFFF;
static_assert(TOGETHER * PART < NONE);
// numbers in a pool that does not fit the faster caches
constexpr Index LARGE_POOL = 1 << 17;
// columns added up at once, if there are as many: enough additions to hide the latency of one
constexpr int COLUMNS = 2 * MESSAGE_COLUMNS;

// Sums of C neighbouring columns, in registers.
template <int C>
struct Sums {
    static constexpr int W = WIDTH<double>, V = C / W;
    Simd<double, W> values[V] = {};
    INLINE void load(const double* from) {
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) values[v] = INSTRUCTION_SET::load<double>(from, Lanes<W>{v * W});
    }
    INLINE void add(const double* message) {
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) values[v] = values[v] + INSTRUCTION_SET::load<double>(message, Lanes<W>{v * W});
    }
    INLINE void store(double* to) const {
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) INSTRUCTION_SET::store(to, Lanes<W>{v * W}, values[v]);
    }
};

template <int C>
struct Columns {
    static constexpr int count = C;
    Index at;
};

// f(c) for blocks of columns; the last one may reach beyond `width`, but not beyond the columns of the pool
template <class F>
INLINE void for_columns(Index width, Index begin, Index end, F f) {
    for (Index block = begin; block < end; ++block) {
        const Index at = block * COLUMNS;
        if (width - at > COLUMNS / 2)
            f(Columns<COLUMNS>{at});
        else if (width - at > COLUMNS / 4)
            f(Columns<COLUMNS / 2>{at});
        else
            f(Columns<COLUMNS / 4>{at});
    }
}
INLINE Index column_blocks(Index width) { return (width + COLUMNS - 1) / COLUMNS; }

// the columns c of a row of the result, of which the row may have fewer
template <int C>
INLINE void write(Vector<double> row, Columns<C> c, const double* sums) {
    std::memcpy(row.data + c.at, sums, static_cast<std::size_t>(smaller<Index>(C, row.size - c.at)) * sizeof(double));
}

// total = sum of the rows `slots` of the pool
INLINE void sum_list(Vector<const std::int32_t> slots, Matrix<const double> pool, Vector<double> total) {
    for_columns(total.size, 0, column_blocks(total.size), [&](auto c) INLINED {
        Sums<c.count> sums;
        for (Index k = 0; k < slots.size; ++k) sums.add(pool.row(slots[k]) + c.at);
        if (total.size - c.at >= c.count) {
            sums.store(total.data + c.at);
        } else {
            double all[c.count];
            sums.store(all);
            write(total, c, all);
        }
    });
}

struct Lists {  // list k is slots[first[k]] to slots[last[k] - 1], and its sum goes into totals[k]
    Vector<const Index> first, last;
    Vector<const std::int32_t> slots;
    Matrix<double> totals;
    INLINE Vector<const std::int32_t> operator[](Index k) const { return slots.slice(first[k], last[k]); }
};

// `sum_list` for `rows`, a few of the lists, which share many messages.
//
// All rows add up some columns of the messages in the first part of their lists, then those in the second, and so on.
// These columns are copied next to one another, so that they stay in the fastest caches meanwhile.
void sum_together(Vector<const Index> rows, const Lists& lists, Matrix<const double> pool) {
    Index longest = 0;
    for (Index r = 0; r < rows.size; ++r) longest = larger(longest, lists[rows[r]].size);
    const Index parts = (longest + PART - 1) / PART, most = rows.size * PART, width = lists.totals.columns;
    // the different messages of each part, and the lists in terms of their places there
    const Buffer<std::int32_t> messages(parts * most);
    const Buffer<std::uint16_t> places(parts * most);
    const Buffer<Index> counts(parts), lengths(parts * rows.size);
    parallel(parts, static_cast<double>(most), [&](Index begin, Index end) {
        // the place of each message among those of the part
        const Buffer<std::uint16_t> known(pool.rows);
        known.fill(NONE);
        for (Index p = begin; p < end; ++p) {
            std::int32_t* const own = &messages[p * most];
            std::uint16_t count = 0;
            for (Index r = 0; r < rows.size; ++r) {
                const auto whole = lists[rows[r]];
                const auto list = whole.slice(p * whole.size / parts, (p + 1) * whole.size / parts);
                std::uint16_t* const place = &places[p * most + r * PART];
                lengths[p * rows.size + r] = list.size;
                for (Index k = 0; k < list.size; ++k) {
                    std::uint16_t& code = known[list[k]];
                    if (code == NONE) {
                        own[count] = list[k];
                        code = count++;
                    }
                    place[k] = code;
                }
            }
            counts[p] = count;
            for (Index k = 0; k < count; ++k) known[own[k]] = NONE;
        }
    });
    const auto work = [&](Index begin, Index end) {
        const Buffer<double> packed(largest_of(counts.data, parts) * COLUMNS), running(rows.size * COLUMNS);
        for_columns(width, begin, end, [&](auto c) INLINED {
            constexpr int C = c.count;
            running.fill(0.0);
            for (Index p = 0; p < parts; ++p) {
                for (Index k = 0; k < counts[p]; ++k)
                    std::memcpy(&packed[k * C], pool.row(messages[p * most + k]) + c.at, C * sizeof(double));
                // the messages of the next part come from memory meanwhile
                const Index next = p + 1 < parts ? p + 1 : 0, column = p + 1 < parts ? c.at : c.at + C;
                for (Index k = 0; k < counts[next]; ++k)
                    for (int line = 0; line < C; line += 8)
                        __builtin_prefetch(pool.row(messages[next * most + k]) + column + line, 0, 2);
                for (Index r = 0; r < rows.size; ++r) {
                    const std::uint16_t* place = &places[p * most + r * PART];
                    const Index count = lengths[p * rows.size + r];
                    Sums<C> sums;
                    sums.load(&running[r * C]);
                    for (Index k = 0; k < count; ++k) sums.add(&packed[place[k] * C]);
                    sums.store(&running[r * C]);
                }
            }
            for (Index r = 0; r < rows.size; ++r) write(lists.totals[rows[r]], c, &running[r * C]);
        });
    };
    parallel(column_blocks(width), 0.06 * static_cast<double>(COLUMNS * longest * rows.size), work);
}

}  // namespace

// For every activation a: totals[a] (w,), the sum of the newest messages received, which are the rows slots[first[a]] to
// slots[last[a] - 1] of the pool, and counts[a], the number of neighbours they came from: row `no_message`, which is
// zero, stands for a neighbour without any.
void sum_messages(Vector<const Index> first, Vector<const Index> last, Vector<const std::int32_t> slots,
                  Matrix<const double> pool, Index no_message, Matrix<double> totals, Vector<Index> counts) {
    const Lists lists{first, last, slots, totals};
    const Buffer<Index> rows(first.size);
    Index all = 0, long_ones = 0, in_long_ones = 0;
    for (Index a = 0; a < first.size; ++a) {
        all += lists[a].size;
        if (lists[a].size > FEW) {
            rows[long_ones++] = a;
            in_long_ones += lists[a].size;
        }
    }
    // lists that share no messages gain nothing from one another, nor do those of a pool that fits a cache
    const bool together = in_long_ones >= pool.rows && pool.size() >= LARGE_POOL && pool.columns > 2 * COLUMNS;
    const auto work = [&](Index begin, Index end) {
        for (Index a = begin; a < end; ++a) {
            const auto list = lists[a];
            Index count = 0;
            for (Index k = 0; k < list.size; ++k) count += list[k] != no_message;
            counts[a] = count;
            if (!together || list.size <= FEW) sum_list(list, pool, totals[a]);
        }
    };
    const double messages = static_cast<double>(all) / static_cast<double>(larger<Index>(first.size, 1));
    parallel(first.size, 0.1 * messages * static_cast<double>(totals.columns), work);
    if (!together) return;
    for (Index begin = 0; begin < long_ones; begin += TOGETHER)
        sum_together({&rows[begin], smaller(TOGETHER, long_ones - begin)}, lists, pool);
}

// Copies the messages (b, w) into the rows `slots` of the pool.
void store_messages(Vector<const std::int32_t> slots, Matrix<const double> messages, Matrix<double> pool) {
    parallel(slots.size, 0.1 * static_cast<double>(messages.columns), [&](Index begin, Index end) {
        for (Index row = begin; row < end; ++row)
            std::memcpy(pool.row(slots[row]), messages.row(row), messages.columns * sizeof(double));
    });
}

}  // namespace barymesh::INSTRUCTION_SET
