// Measures on a regular grid with a cost that adds up over the axes.
//
// There exp(-c(z, y)/reg) is a product of one small matrix for each axis, so the two sums of the oracle
//
//     Z(y)      = sum_l exp(x_l) K(l, y)                 x = lam / reg
//     log p_l   = x_l + log sum_y K(l, y) mu(y) / Z(y)
//
// cost one small matrix product for each axis instead of one exponential for each pair. `fast_nodes` does just that,
// and checks every node for underflow. Nodes that fail the check are computed by `safe_nodes`, which stores an exponent
// with every block of numbers (block floating point) and so cannot underflow.
//
// Shapes: a node's potential is (n,) = (n_0 ... n_{d-1}) flattened in C order; its atoms are listed by their flat
// position on the atom grid (N_0 ... N_{d-1}). A box (d, 2) is a start and a stop for each axis: images have empty
// margins, which the sums leave out.
#include "matmul.h"
#include "threads.h"
#include "vector_math.h"

#include "kernels.h"

namespace barymesh::INSTRUCTION_SET {
namespace {

// below this a sum of products may have lost terms that matter; see the guard in fast_node
template <class T>
constexpr T TINY = sizeof(T) == 8 ? T(1e-290) : T(1e-30);
// nodes whose potentials range over more than this are not tried: none has passed with more than 700
template <class T>
constexpr double LARGEST_RANGE = sizeof(T) == 8 ? 800.0 : 100.0;
// log 0
constexpr double LOG_ZERO = -1e12;
constexpr double LN2 = 0.6931471805599453;
// a sum in block floating point above this is exact to rounding: 2^-950
constexpr double SAFE = 0x1p-950;
// rows of the result computed together, so that their data stay in the fastest cache
constexpr int BAND = TILE_ROWS;

using Box = Matrix<const Index>;
INLINE Range along(Box box, Index axis) { return {box(axis, 0), box(axis, 1)}; }

// Multiplies the array `source` by one matrix along every axis, into `target`.
//
// `first` (n_last, padded N_last), zero in the padding; `others` (N_a, n_a) for the axes before the last. `source`
// (prod n); `target` and `spare` hold the largest intermediate, last axis padded. The source is taken as zero outside
// `source_box`, and only `target_box` is computed. The boxes are used along the current axis, the first and the last.
template <class T>
void product_apply(Vector<const T> source, T* target, T* spare, Matrix<const T> first,
                   const List<Matrix<const T>>& others, Box source_box, Box target_box) {
    const int last = others.size;
    const Index rows = source.size / first.rows, width = first.columns;
    T* current = last % 2 == 0 ? target : spare;
    T* following = last % 2 == 0 ? spare : target;
    Range columns = along(target_box, last), wanted{0, 1};
    if (last > 0) {
        const Index per_slab = rows / others[0].columns;
        wanted = {source_box(0, 0) * per_slab, source_box(0, 1) * per_slab};
    }
    matmul<T>({source.data, rows, first.rows}, first, {current, rows, width}, wanted, columns, along(source_box, last));
    Index post = width, pre = rows;
    for (int k = last - 1; k >= 0; --k) {
        const Index n_out = others[k].rows, n_in = others[k].columns;
        pre /= n_in;
        Range blocks{0, 1};
        if (k > 0) {
            const Index per_slab = pre / others[0].columns;
            blocks = {source_box(0, 0) * per_slab, source_box(0, 1) * per_slab};
        }
        for (Index p = blocks.start; p < blocks.stop; ++p)
            matmul<T>(others[k], {current + p * n_in * post, n_in, post}, {following + p * n_out * post, n_out, post},
                      along(target_box, k), columns, along(source_box, k));
        post *= n_out;
        columns = {0, post};
        T* swapped = current;
        current = following;
        following = swapped;
    }
}

template <class T>
struct Passages {  // the matrices from the support to the atoms, and those in the other direction
    Matrix<const T> first;
    const List<Matrix<const T>>& others;
    Matrix<const T> backward_first;
    const List<Matrix<const T>>& backward_others;
};

template <class T>
struct Scratch {
    Buffer<T> e, z, spare, q;
};

// One node in ordinary arithmetic: fills its value and `log_p` (n,), or, if `sums` is given, log Z at its atoms only.
// False if a sum may have lost terms.
//
// `box` (d, 2) contains the node's atoms and `whole` the support. The check: a term lost to underflow is below 1e-307,
// so a sum above TINY is exact to rounding.
template <class T>
bool fast_node(Vector<const double> x, Vector<const Index> position, Vector<const Index> padded_position,
               Vector<const double> weight, const Passages<T>& passages, Box box, Box whole, Scratch<T>& scratch,
               double& value, double* log_p, double* sums) {
    const Index n = x.size, atoms = position.size;
    T *e = scratch.e.data, *z = scratch.z.data, *spare = scratch.spare.data;
    const double top = largest_of(x.data, n);
    // of log Z, numbers that stand for log 0 may be part
    if (!sums && top - smallest_of(x.data, n) > LARGEST_RANGE<T>) return false;
    for_lanes<double>(n, [&](auto l) { store(e, l, load<double>(x.data, l) - top); });
    for_lanes<T>(n, [&](auto l) { store(e, l, exp(load<T>(e, l))); });
    product_apply<T>({e, n}, z, spare, passages.first, passages.others, whole, box);
    T* z_atoms = spare;
    for (Index k = 0; k < atoms; ++k) z_atoms[k] = z[padded_position[k]];
    if (!(smallest_of(z_atoms, atoms) > TINY<T>)) return false;
    if (sums) {
        for_lanes<double>(atoms, [&](auto l) { store(sums, l, top + log(load<double>(z_atoms, l))); });
        return true;
    }
    const double total = sum_terms<double>(atoms, [&](auto running, auto l) {
        return fma(load<double>(weight.data, l), log(load<double>(z_atoms, l)), running);
    });
    for_lanes<double>(atoms, [&](auto l) {
        store(z_atoms, l, load<double>(weight.data, l) / load<double>(z_atoms, l));
    });
    const T largest = larger(largest_of(z_atoms, atoms), T(0));
    scratch.q.fill(0);
    for (Index k = 0; k < atoms; ++k) scratch.q[position[k]] = z_atoms[k];
    product_apply<T>({scratch.q.data, scratch.q.size}, z, spare, passages.backward_first, passages.backward_others,
                     box, whole);
    const Index width_in = passages.backward_first.columns, width_out = passages.first.rows, rows = n / width_out;
    T lowest_sum = largest;
    for (Index r = 0; r < rows; ++r) lowest_sum = smaller(lowest_sum, smallest_of(z + r * width_in, width_out));
    // a kernel entry below 1e-307 may have been multiplied by a factor as large as `largest`
    if (!(lowest_sum > TINY<T> * larger(largest, T(1)))) return false;
    for (Index r = 0; r < rows; ++r)
        for_lanes<double>(width_out, [&](auto l) {
            const Lanes<l.count> out{r * width_out + l.at};
            store(log_p, out, load<double>(x.data, out) - top + log(load<double>(z + r * width_in, l)));
        });
    value = total + top;
    return true;
}

template <class V>
INLINE V ceiling(V x) {  // the next whole number, for |x| below 2^51
    const V nearest = (x + BIG) - BIG;
    return select(nearest < x, nearest + 1.0, nearest);
}

// 2^k for a whole number k <= 1023 stored as a float; 0 from -1023 on
template <class V>
INLINE V power_of_two(V k) {
    return two_to(highest(k, splat<double, COUNT<V>>(-1023.0)) + BIG);
}

// out[y, r] = log sum_l exp(a[l, r] - k[l, y]) in block floating point, and `smallest` (rows,).
//
// Only l in the range `source` and y in `target` are present: `a` (source, rows), `out` (target, rows), rows a multiple
// of STRIP; LOG_ZERO stands for log 0. exp(-k) is given in blocks of `chunk` neighbouring l: `mantissa` (chunks, N,
// chunk) in (0, 1], times 2^`exponent` (chunks, N). The input gets an exponent for each chunk and r likewise. Inside a
// chunk the sum is an ordinary matrix product; the chunks are added with their exponents, which are whole numbers and
// cost no exponential.
//
// What lies 2^-1022 below the highest exponent is dropped, so column r is exact to rounding if its smallest[r], the
// least sum relative to that exponent, is above SAFE.
void log_matmul(Matrix<const double> a, Cube<const double> mantissa, Matrix<const double> exponent, Range source,
                Range target, Matrix<double> out, double* smallest) {
    const Index rows = a.columns, chunk = mantissa.columns;
    const Index first_chunk = source.start / chunk, chunks = (source.stop + chunk - 1) / chunk;
    const Buffer<double> top_memory(chunks * rows), factor_memory(chunks * chunk * rows), highest_memory(BAND * rows),
        part_memory(BAND * rows);
    const auto tops = top_memory.matrix(chunks, rows), heights = highest_memory.matrix(BAND, rows),
               part = part_memory.matrix(BAND, rows);
    const Cube<double> factors{factor_memory.data, chunks, chunk, rows};
    for (Index c = first_chunk; c < chunks; ++c) {
        const Index start = larger(source.start, c * chunk), stop = smaller(source.stop, (c + 1) * chunk);
        for_lanes<double>(rows, [&](auto l) {
            auto top = splat<double, l.count>(LOG_ZERO);
            for (Index k = start; k < stop; ++k) top = highest(top, load<double>(a.row(k - source.start), l));
            store(tops.row(c), l, ceiling(top * LOG2_E));
        });
        for (Index k = start; k < stop; ++k)
            for_lanes<double>(rows, [&](auto l) {
                const auto above = load<double>(a.row(k - source.start), l) - load<double>(tops.row(c), l) * LN2;
                store(factors[c].row(k - c * chunk), l, exp(above));
            });
    }
    for_lanes<double>(rows, [&](auto l) { store(smallest, l, splat<double, l.count>(1.0)); });
    for (Index begin = target.start; begin < target.stop; begin += BAND) {
        const Index count = smaller<Index>(target.stop - begin, BAND), place = begin - target.start;
        for (Index y = 0; y < count; ++y)
            for_lanes<double>(rows, [&](auto l) {
                auto top = load<double>(tops.row(first_chunk), l) + exponent(first_chunk, begin + y);
                for (Index c = first_chunk + 1; c < chunks; ++c)
                    top = highest(top, load<double>(tops.row(c), l) + exponent(c, begin + y));
                store(heights.row(y), l, top);
                store(out.row(place + y), l, top - top);
            });
        for (Index c = first_chunk; c < chunks; ++c) {
            const Range inner{larger<Index>(source.start - c * chunk, 0), smaller(source.stop - c * chunk, chunk)};
            matmul<double>({mantissa[c].row(begin), count, chunk}, factors[c], part, {0, count}, {0, rows}, inner);
            for (Index y = 0; y < count; ++y)
                for_lanes<double>(rows, [&](auto l) {
                    const auto height = load<double>(tops.row(c), l) + exponent(c, begin + y);
                    const auto scale = power_of_two(height - load<double>(heights.row(y), l));
                    double* sums = out.row(place + y);
                    store(sums, l, fma(load<double>(part.row(y), l), scale, load<double>(sums, l)));
                });
        }
        for (Index y = 0; y < count; ++y)
            for_lanes<double>(rows, [&](auto l) {
                double* sums = out.row(place + y);
                const auto height = load<double>(heights.row(y), l);
                const auto present = height > 0.5 * LOG_ZERO;
                const auto sum = select(present, load<double>(sums, l), splat<double, l.count>(1.0));
                store(smallest, l, lowest(load<double>(smallest, l), sum));
                store(sums, l, select(present, height * LN2 + log(sum), splat<double, l.count>(LOG_ZERO)));
            });
    }
}

// `log_matmul` with long chunks, which are fast; columns that underflow are computed again with short ones.
void guarded_log_matmul(Matrix<const double> a, Cube<const double> coarse, Matrix<const double> coarse_exponent,
                        Cube<const double> fine, Matrix<const double> fine_exponent, Range source, Range target,
                        Matrix<double> out) {
    const Buffer<double> smallest(a.columns);
    log_matmul(a, coarse, coarse_exponent, source, target, out, smallest.data);
    const Buffer<Index> lost(a.columns);
    Index count = 0;
    for (Index r = 0; r < a.columns; ++r)
        if (!(smallest[r] > SAFE)) lost[count++] = r;
    if (count == 0) return;
    const Index width = padded(count);
    const Buffer<double> selected_memory(a.rows * width), result_memory(out.rows * width);
    selected_memory.fill(0.0);
    const auto selected = selected_memory.matrix(a.rows, width), result = result_memory.matrix(out.rows, width);
    for (Index k = 0; k < a.rows; ++k)
        for (Index r = 0; r < count; ++r) selected(k, r) = a(k, lost[r]);
    const Buffer<double> ignored(width);
    log_matmul(selected, fine, fine_exponent, source, target, result, ignored.data);
    for (Index y = 0; y < out.rows; ++y)
        for (Index r = 0; r < count; ++r) out(y, lost[r]) = result(y, r);
}

// result[g, y] = log sum_l exp(x[g, l] - k(l, y)) for a few nodes g: one `guarded_log_matmul` for each axis.
//
// l runs over the box `source` and y over `target`: `x` (g, size of source), `result` (g, size of target).
// `mantissas`, `exponents`: coarse tables of all axes, then fine ones. Each pass removes the last axis and puts the
// result axis in front, so the axes end in their order, with g last.
void log_product_apply(Matrix<const double> x, const List<Cube<const double>>& mantissas,
                       const List<Matrix<const double>>& exponents, Box source, Box target, Matrix<double> result) {
    const int axes = mantissas.size / 2;
    // a pass reads one buffer and writes the other; the largest intermediate has whole rows of padding
    Index most = x.size(), size = x.size();
    for (int k = axes - 1; k >= 0; --k) {
        const Index rows = size / along(source, k).size();
        size = rows * along(target, k).size();
        most = larger(most, padded(rows) * larger(along(source, k).size(), along(target, k).size()));
    }
    const Buffer<double> transposed(most), computed(most);
    Matrix<const double> current = x;
    Index used = x.columns;
    for (int k = axes - 1; k >= 0; --k) {
        const Range from = along(source, k), to = along(target, k);
        const Index n_in = from.size(), per_row = used / n_in, rows = current.rows * per_row;
        const auto a = transposed.matrix(n_in, padded(rows));
        for (Index q = 0; q < n_in; ++q) {
            for (Index y = 0; y < current.rows; ++y)
                for (Index r = 0; r < per_row; ++r) a(q, y * per_row + r) = current(y, r * n_in + q);
            for (Index r = rows; r < a.columns; ++r) a(q, r) = 0.0;
        }
        const auto out = computed.matrix(to.size(), a.columns);
        guarded_log_matmul(a, mantissas[k], exponents[k], mantissas[axes + k], exponents[axes + k], from, to, out);
        current = out;
        used = rows;
    }
    const Index nodes = x.rows, per_row = used / nodes;
    for (Index y = 0; y < current.rows; ++y)
        for (Index r = 0; r < per_row; ++r)
            for (Index g = 0; g < nodes; ++g) result(g, y * per_row + r) = current(y, r * nodes + g);
}

Index box_size(Box box) {
    Index size = 1;
    for (Index axis = 0; axis < box.rows; ++axis) size *= along(box, axis).size();
    return size;
}

// flat index in the box of the point with these coordinates (d,) on the grid
Index index_in_box(Vector<const Index> coordinates, Box box) {
    Index place = 0;
    for (Index axis = 0; axis < box.rows; ++axis)
        place = place * along(box, axis).size() + coordinates[axis] - box(axis, 0);
    return place;
}

}  // namespace

// Values and log-gradients of the listed rows of `x` (b, n), safe from underflow, `group` at a time. If `sums` is not
// empty, row i only stores its log Z at the atoms in sums[first[i]:].
void safe_nodes(Matrix<const double> x, Vector<const Index> rows, Vector<const Index> nodes,
                Vector<const Index> offsets, Matrix<const Index> coordinates, Vector<const double> weight,
                Cube<const Index> boxes, Index group, List<Cube<const double>> forward,
                List<Matrix<const double>> forward_exponents, List<Cube<const double>> backward,
                List<Matrix<const double>> backward_exponents, Matrix<const Index> whole, Vector<double> value,
                Matrix<double> log_p, Vector<double> sums, Vector<const Index> first) {
    const Index n = x.columns;
    const auto work = [&](Index begin, Index end) {
        for (Index t = begin; t < end; ++t) {
            const auto members = rows.slice(t * group, smaller(rows.size, (t + 1) * group));
            // the smallest box that contains the atoms of all these nodes
            const Buffer<Index> box_memory(2 * whole.rows);
            const auto box = box_memory.matrix(whole.rows, 2);
            for (Index axis = 0; axis < box.rows; ++axis) {
                box(axis, 0) = boxes[nodes[members[0]]](axis, 0);
                box(axis, 1) = boxes[nodes[members[0]]](axis, 1);
                for (Index g = 1; g < members.size; ++g) {
                    box(axis, 0) = smaller(box(axis, 0), boxes[nodes[members[g]]](axis, 0));
                    box(axis, 1) = larger(box(axis, 1), boxes[nodes[members[g]]](axis, 1));
                }
            }
            const Index size = box_size(box);
            const Buffer<double> part_memory(members.size * n), line_memory(members.size * size);
            const auto part = part_memory.matrix(members.size, n), source = line_memory.matrix(members.size, size);
            for (Index g = 0; g < members.size; ++g) std::memcpy(part.row(g), x.row(members[g]), n * sizeof(double));
            log_product_apply(part, forward, forward_exponents, whole, box, source);
            for (Index g = 0; g < members.size; ++g) {
                const Index start = offsets[nodes[members[g]]], count = offsets[nodes[members[g]] + 1] - start;
                const Buffer<double> kept(count);
                const Buffer<Index> place(count);
                double* line = source.row(g);
                for (Index k = 0; k < count; ++k) {
                    place[k] = index_in_box(coordinates[start + k], box);
                    kept[k] = line[place[k]];
                }
                value[members[g]] = dot(weight.data + start, kept.data, count);
                if (sums.size) {
                    std::memcpy(sums.data + first[members[g]], kept.data, count * sizeof(double));
                } else {
                    for (Index k = 0; k < size; ++k) line[k] = LOG_ZERO;
                    for (Index k = 0; k < count; ++k) line[place[k]] = log(weight[start + k]) - kept[k];
                }
            }
            if (sums.size) continue;
            const Buffer<double> log_s_memory(members.size * n);
            const auto log_s = log_s_memory.matrix(members.size, n);
            log_product_apply(source, backward, backward_exponents, box, whole, log_s);
            for (Index g = 0; g < members.size; ++g)
                for_lanes<double>(n, [&](auto l) {
                    store(log_p.row(members[g]), l, load<double>(part.row(g), l) + load<double>(log_s.row(g), l));
                });
        }
    };
    // a few exponentials and products for each point and node
    parallel((rows.size + group - 1) / group, static_cast<double>(n * group) * 50.0, work);
}

// `fast_node` for a batch x (b, n); ok (b,): which rows passed the check. `scratch`: the numbers of a potential, of the
// largest intermediate, and of the atom grid. If `sums` is not empty, row i only stores its log Z in sums[first_sum[i]:].
template <class T>
void fast_nodes(Matrix<const double> x, Vector<const Index> nodes, Vector<const Index> offsets,
                Vector<const Index> position, Vector<const Index> padded_position, Vector<const double> weight,
                Matrix<const T> first, List<Matrix<const T>> others, Matrix<const T> backward_first,
                List<Matrix<const T>> backward_others, Cube<const Index> boxes, Matrix<const Index> whole,
                Vector<const Index> scratch, Vector<double> value, Matrix<double> log_p, Vector<bool> ok,
                Vector<double> sums, Vector<const Index> first_sum) {
    const Passages<T> passages{first, others, backward_first, backward_others};
    const auto work = [&](Index begin, Index end) {
        Scratch<T> memory{Buffer<T>(scratch[0]), Buffer<T>(scratch[1]), Buffer<T>(scratch[1]), Buffer<T>(scratch[2])};
        for (Index row = begin; row < end; ++row) {
            const Index start = offsets[nodes[row]], stop = offsets[nodes[row] + 1];
            value[row] = 0.0;
            ok[row] = fast_node<T>(x[row], position.slice(start, stop), padded_position.slice(start, stop),
                                   weight.slice(start, stop), passages, boxes[nodes[row]], whole, memory, value[row],
                                   log_p.row(row), sums.size ? sums.data + first_sum[row] : nullptr);
        }
    };
    parallel(x.rows, static_cast<double>(x.columns) * 10.0, work);
}

template void fast_nodes<double>(Matrix<const double>, Vector<const Index>, Vector<const Index>, Vector<const Index>,
                                 Vector<const Index>, Vector<const double>, Matrix<const double>,
                                 List<Matrix<const double>>, Matrix<const double>, List<Matrix<const double>>,
                                 Cube<const Index>, Matrix<const Index>, Vector<const Index>, Vector<double>,
                                 Matrix<double>, Vector<bool>, Vector<double>, Vector<const Index>);
template void fast_nodes<float>(Matrix<const double>, Vector<const Index>, Vector<const Index>, Vector<const Index>,
                                Vector<const Index>, Vector<const double>, Matrix<const float>,
                                List<Matrix<const float>>, Matrix<const float>, List<Matrix<const float>>,
                                Cube<const Index>, Matrix<const Index>, Vector<const Index>, Vector<double>,
                                Matrix<double>, Vector<bool>, Vector<double>, Vector<const Index>);

}  // namespace barymesh::INSTRUCTION_SET
