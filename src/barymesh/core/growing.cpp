// Samples that grow: every draw gets a key, and draws with the same key become one entry.
//
// A node's table lists its entries (key, count, sums (d,)) in the order of their keys: the number of draws with the
// key, and the sums of their positions. Positions are whole numbers of a tiny unit, so a table consists of integers,
// and depends neither on the order of the draws nor on the batches in which they were added. There are three kinds of
// keys:
//
// - of a discrete measure: the number of the atom; positions are not needed
// - in up to MOST_AXES dimensions: the cell of a lattice, on level 0 a cube of 2^CELL_BITS units. The key interleaves
//   the bits of its coordinates (Z-order). Every further level joins pairs of neighbours, along one axis after the
//   other: then key >> 1 is the cell of the next level, and a table stays sorted when its level rises
// - in more dimensions: the number of the draw
//
// The tables of all nodes share the arrays `keys`, `counts` and `sums`: node i has size[i] entries from begin[i].
#include "growing.h"
#include "sampled.h"
#include "threads.h"

#include "kernels.h"

namespace barymesh::INSTRUCTION_SET {
namespace {

// positions are clipped to -LARGEST_POSITION .. LARGEST_POSITION - 1; sums of 2^26 of them do not overflow
constexpr Index LARGEST_POSITION = Index(1) << (CELL_BITS + AXIS_BITS - 1);
// keys are counted, not sorted, if their range is at most this times the number of draws
constexpr Index COUNTING_SPAN = 8;

// A table: keys (k,), counts (k,), sums (k, d). D is the dimension if it is at most MOST_AXES, so that loops over the
// axes are unrolled, and 0 otherwise.
template <int D>
struct Table {
    Index *keys, *counts, *sums;
    Index d;

    INLINE Index dimension() const { return D ? D : d; }
    INLINE Index* sums_of(Index k) const { return sums + k * dimension(); }
    // the entries from `start` on
    INLINE Table from(Index start) const { return {keys + start, counts + start, sums_of(start), d}; }

    // makes entry k a copy of one of another table, with this key
    INLINE void copy(Index k, Index key, const Table& other, Index entry) const {
        keys[k] = key, counts[k] = other.counts[entry];
        for (Index axis = 0; axis < dimension(); ++axis) sums_of(k)[axis] = other.sums_of(entry)[axis];
    }
    // adds the draws of an entry of another table to entry k
    INLINE void add(Index k, const Table& other, Index entry) const {
        counts[k] += other.counts[entry];
        for (Index axis = 0; axis < dimension(); ++axis) sums_of(k)[axis] += other.sums_of(entry)[axis];
    }
    // moves the entries `start` to `stop` so many places back
    INLINE void move(Index start, Index stop, Index places) const {
        if (start == stop || places == 0) return;
        const Index bytes = (stop - start) * sizeof(Index);
        std::memmove(keys + start + places, keys + start, bytes);
        std::memmove(counts + start + places, counts + start, bytes);
        std::memmove(sums_of(start + places), sums_of(start), bytes * dimension());
    }
};

// f(table), with the dimension of the table as a constant if it is at most MOST_AXES
template <class F>
INLINE void with_table(Vector<Index> keys, Vector<Index> counts, Matrix<Index> sums, const F& f) {
    static_assert(MOST_AXES == 3);
    const Index d = sums.columns;
    if (d == 1) return f(Table<1>{keys.data, counts.data, sums.data, d});
    if (d == 2) return f(Table<2>{keys.data, counts.data, sums.data, d});
    if (d == 3) return f(Table<3>{keys.data, counts.data, sums.data, d});
    f(Table<0>{keys.data, counts.data, sums.data, d});
}

// The bits of `cell` with d - 1 zeros between neighbours.
INLINE Index spread(Index cell, Index d) {
    Index key = 0;
    for (int bit = 0; bit < AXIS_BITS; ++bit) key |= ((cell >> bit) & 1) << (bit * d);
    return key;
}

// The key of the cell of level 0 that contains `positions` (d,): along an axis, cells are 0 to 2^AXIS_BITS - 1.
INLINE Index z_order(const Index* positions, Index d) {
    Index key = 0;
    for (Index axis = 0; axis < d; ++axis) {
        const Index cell = (positions[axis] + LARGEST_POSITION) >> CELL_BITS;
        key |= d == 1 ? cell : spread(cell, d) << axis;
    }
    return key;
}

// Fills the keys and positions, the sums, of the draws `points` (k, d); the first is the node's draw `number`.
template <int D>
void lattice_keys(Matrix<const double> points, Vector<const double> origin, double unit, Index level, Index number,
                  const Table<D>& draws) {
    const Index d = draws.dimension();
    const double highest = static_cast<double>(LARGEST_POSITION - 1), lowest = -static_cast<double>(LARGEST_POSITION);
    for (Index k = 0; k < points.rows; ++k) {
        Index* positions = draws.sums_of(k);
        for (Index axis = 0; axis < d; ++axis) {
            const double position = __builtin_floor((points(k, axis) - origin[axis]) / unit + 0.5);
            positions[axis] = static_cast<Index>(smaller(larger(position, lowest), highest));
        }
        draws.keys[k] = d <= MOST_AXES ? z_order(positions, d) >> level : number + k;
    }
}

struct Place {  // of a key in a list
    Index key, at;
};

// Sorts `places` (count,) by key, merging runs of 1, 2, 4, ... places; `spare` has as many. Returns the one of the two
// lists that is sorted.
Place* sorted(Place* places, Place* spare, Index count) {
    for (Index run = 1; run < count; run *= 2) {
        for (Index start = 0; start < count; start += 2 * run) {
            const Index middle = smaller(start + run, count), stop = smaller(start + 2 * run, count);
            Index a = start, b = middle, k = start;
            while (a < middle && b < stop) {
                // arithmetic, not branches, which random keys would mispredict
                const Index second = places[b].key < places[a].key;
                spare[k++] = places[a + second * (b - a)];
                a += 1 - second;
                b += second;
            }
            std::memcpy(spare + k, places + (a < middle ? a : b), (stop - k) * sizeof(Place));
        }
        Place* swapped = places;
        places = spare;
        spare = swapped;
    }
    return places;
}

// Memory to group up to `most` draws in d dimensions.
struct Scratch {
    INLINE Scratch(Index most, Index d)
        : counts(COUNTING_SPAN * most), sums(COUNTING_SPAN * most * d), places(most), spare(most) {}
    const Buffer<Index> counts, sums;
    const Buffer<Place> places, spare;
};

// Collects `count` > 0 draws, entries with a count of 1, in a table with one entry for each key; returns its size.
template <int D>
Index group_by_key(const Table<D>& draws, Index count, const Scratch& scratch, const Table<D>& out) {
    const Index low = smallest_of(draws.keys, count), range = largest_of(draws.keys, count) - low;
    Index size = 0;
    if (range < COUNTING_SPAN * count) {
        // counting all keys in the range is faster than sorting
        const Index span = range + 1;
        const Table<D> all{nullptr, scratch.counts.data, scratch.sums.data, out.d};
        std::memset(all.counts, 0, span * sizeof(Index));
        std::memset(all.sums, 0, span * out.dimension() * sizeof(Index));
        for (Index k = 0; k < count; ++k) all.add(draws.keys[k] - low, draws, k);
        for (Index k = 0; k < span; ++k)
            if (all.counts[k]) out.copy(size++, low + k, all, k);
        return size;
    }
    for (Index k = 0; k < count; ++k) scratch.places[k] = {draws.keys[k], k};
    const Place* order = sorted(scratch.places.data, scratch.spare.data, count);
    for (Index k = 0; k < count; ++k) {
        if (size > 0 && out.keys[size - 1] == order[k].key)
            out.add(size - 1, draws, order[k].at);
        else
            out.copy(size++, order[k].key, draws, order[k].at);
    }
    return size;
}

// Merges `new_size` new entries into a table of `size` entries, which has room for all; returns its total size.
template <int D>
Index merge(Index size, const Table<D>& entries, Index new_size, const Table<D>& added) {
    Index total = size;
    for (Index j = 0, k = 0; j < new_size; ++j) {
        while (k < size && entries.keys[k] < added.keys[j]) ++k;
        total += k == size || entries.keys[k] != added.keys[j];
    }
    // from the end, so that no entry is overwritten before it is moved; those before `end` are still in their place
    Index end = size, shift = total - size;
    for (Index j = new_size - 1; j >= 0; --j) {
        Index k = end;
        while (k > 0 && entries.keys[k - 1] > added.keys[j]) --k;
        entries.move(k, end, shift);
        end = k;
        if (k > 0 && entries.keys[k - 1] == added.keys[j])
            entries.add(k - 1, added, j);
        else
            entries.copy(k + --shift, added.keys[j], added, j);
    }
    return total;
}

// Raises the level of a table by one; returns its new size.
template <int D>
Index coarsen(Index size, const Table<D>& entries) {
    Index total = 0;
    for (Index k = 0; k < size; ++k) {
        const Index key = entries.keys[k] >> 1;
        if (total > 0 && entries.keys[total - 1] == key)
            entries.add(total - 1, entries, k);
        else
            entries.copy(total++, key, entries, k);
    }
    return total;
}

}  // namespace

// Draws the next batches of every node, each of `batch` draws, and groups them by key: row i fills new_sizes[i] entries
// of `keys`, `counts` and `sums` from starts[i] on.
//
// Row i draws (starts[i + 1] - starts[i]) / batch batches, one or more, after the `batches` that its node has; a node
// without any begins with an empty table. `points` (draws, d) already contains the draws of measures given as functions;
// the others are drawn with `values` (components, d) for their centres, which are the numbers of the atoms for discrete
// measures.
void draw_sample_entries(std::uint64_t seed, Index batch, Vector<const Index> nodes, Vector<const Index> starts,
                         Matrix<double> points, Vector<const bool> discrete, Vector<const double> origin, double unit,
                         Vector<const Index> first, Vector<const Index> last, Vector<const double> cumulative,
                         Matrix<const double> values, Vector<const Index> root, Cube<const double> roots,
                         Vector<const Index> batches, Vector<Index> size, Vector<Index> level, Vector<Index> keys,
                         Vector<Index> counts, Matrix<Index> sums, Vector<Index> new_sizes) {
    const Components components{first, last, cumulative, values, root, roots};
    const double count = static_cast<double>(points.rows) / static_cast<double>(larger<Index>(nodes.size, 1));
    // normal numbers, the search for a component, and sorting
    const double nanoseconds = count * (50.0 + 30.0 * static_cast<double>(points.columns));
    with_table(keys, counts, sums, [&](auto entries) {
        parallel(nodes.size, nanoseconds, [&](Index begin, Index end) {
            Index most = 0;
            for (Index i = begin; i < end; ++i) most = larger(most, starts[i + 1] - starts[i]);
            const Index d = entries.dimension();
            const Buffer<Index> draw_keys(most), ones(most), positions(most * d);
            const Scratch scratch(most, d);
            ones.fill(1);
            const decltype(entries) draws{draw_keys.data, ones.data, positions.data, d};
            for (Index i = begin; i < end; ++i) {
                const Index node = nodes[i], draw_count = starts[i + 1] - starts[i];
                const Matrix<double> own{points.row(starts[i]), draw_count, d};
                if (batches[node] == 0) size[node] = 0, level[node] = 0;
                if (last[node] > first[node])
                    for (Index k = 0; k < draw_count; k += batch)
                        draw(seed, node, batches[node] + k / batch, components, {own.row(k), batch, d});
                if (discrete[node]) {
                    positions.fill(0);
                    for (Index k = 0; k < draw_count; ++k) draw_keys[k] = static_cast<Index>(own(k, 0));
                } else {
                    lattice_keys(own, origin, unit, level[node], batches[node] * batch, draws);
                }
                new_sizes[i] = group_by_key(draws, draw_count, scratch, entries.from(starts[i]));
            }
        });
    });
}

// Merges the entries of `draw_sample_entries` into the tables, and raises the level of tables with more than `most` entries
// until they have no more.
void merge_sample_entries(Vector<const Index> nodes, Index batch, Vector<const Index> starts,
                          Vector<const Index> new_sizes, Vector<Index> new_keys, Vector<Index> new_counts,
                          Matrix<Index> new_sums, Vector<const Index> most, Vector<Index> batches, Vector<Index> size,
                          Vector<Index> level, Vector<const Index> begin, Vector<Index> keys, Vector<Index> counts,
                          Matrix<Index> sums) {
    Index entries = new_keys.size;
    for (Index i = 0; i < nodes.size; ++i) entries += size[nodes[i]];
    const double nanoseconds = 5.0 * static_cast<double>(entries) / static_cast<double>(larger<Index>(nodes.size, 1));
    with_table(keys, counts, sums, [&](auto all) {
        const decltype(all) added{new_keys.data, new_counts.data, new_sums.data, all.d};
        parallel(nodes.size, nanoseconds, [&](Index from, Index to) {
            for (Index i = from; i < to; ++i) {
                const Index node = nodes[i];
                const auto own = all.from(begin[node]);
                Index total = merge(size[node], own, new_sizes[i], added.from(starts[i]));
                while (total > most[node]) {
                    total = coarsen(total, own);
                    level[node] += 1;
                }
                size[node] = total;
                batches[node] += (starts[i + 1] - starts[i]) / batch;
            }
        });
    });
}

// Copies the tables of the nodes from `begin` in one set of arrays to `new_begin` in another.
void copy_sample_tables(Vector<const Index> nodes, Vector<const Index> size, Vector<const Index> begin,
                        Vector<const Index> keys, Vector<const Index> counts, Matrix<const Index> sums,
                        Vector<const Index> new_begin, Vector<Index> new_keys, Vector<Index> new_counts,
                        Matrix<Index> new_sums) {
    for (Index i = 0; i < nodes.size; ++i) {
        const Index here = begin[nodes[i]], there = new_begin[nodes[i]], bytes = size[nodes[i]] * sizeof(Index);
        std::memcpy(&new_keys[there], &keys[here], bytes);
        std::memcpy(&new_counts[there], &counts[here], bytes);
        std::memcpy(new_sums.row(there), sums.row(here), bytes * sums.columns);
    }
}

// The merged sample of row i: `points` (N, d) and `weights` (N,) in offsets[i] to offsets[i + 1]. A point is the mean of
// the draws with its key, or the atom, one of `centres`; its weight is their share of all draws.
void merged_sample(Vector<const Index> nodes, Vector<const Index> offsets, Index batch, Vector<const bool> discrete,
                   Vector<const double> origin, double unit, Matrix<const double> centres, Vector<const Index> batches,
                   Vector<const Index> begin, Vector<const Index> keys, Vector<const Index> counts,
                   Matrix<const Index> sums, Matrix<double> points, Vector<double> weights) {
    const auto work = [&](Index from, Index to) {
        for (Index i = from; i < to; ++i) {
            const Index node = nodes[i];
            const double draws = static_cast<double>(batches[node] * batch);
            for (Index k = offsets[i]; k < offsets[i + 1]; ++k) {
                const Index entry = begin[node] + k - offsets[i];
                const double count = static_cast<double>(counts[entry]);
                weights[k] = count / draws;
                for (Index axis = 0; axis < origin.size; ++axis)
                    points(k, axis) = discrete[node]
                                          ? centres(keys[entry], axis)
                                          : origin[axis] + unit * (static_cast<double>(sums(entry, axis)) / count);
            }
        }
    };
    const double each = static_cast<double>(points.rows) / static_cast<double>(larger<Index>(nodes.size, 1));
    parallel(nodes.size, each * (5.0 + 5.0 * static_cast<double>(origin.size)), work);
}

}  // namespace barymesh::INSTRUCTION_SET
