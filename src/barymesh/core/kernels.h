// All kernels, as Python sees them. Included once for each instruction set, and described where they are defined.
#include "messages.h"

namespace barymesh {
struct Tree;
}

namespace barymesh::INSTRUCTION_SET {

// elements.cpp
template <class T>
void vector_exp(Vector<const T> x, Vector<T> out);
void vector_log(Vector<const double> x, Vector<double> out);
template <class T>
double vector_sum(Vector<const T> a);
template <class T, class S>
double vector_dot(Vector<const T> a, Vector<const S> b);
template <class T>
void part_of_product(Matrix<const T> a, Matrix<const T> b, Matrix<T> c, Vector<const Index> rows,
                     Vector<const Index> columns, Vector<const Index> inner);
void random_words(std::uint64_t stream, Vector<std::uint64_t> out);
void random_normals(std::uint64_t stream, Vector<double> out);

// grid.cpp
template <class T>
void fast_nodes(Matrix<const double> x, Vector<const Index> nodes, Vector<const Index> offsets,
                Vector<const Index> position, Vector<const Index> padded_position, Vector<const double> weight,
                Matrix<const T> first, List<Matrix<const T>> others, Matrix<const T> backward_first, List<Matrix<const T>> backward_others,
                Cube<const Index> boxes, Matrix<const Index> whole, Vector<const Index> scratch, Vector<double> value,
                Matrix<double> log_p, Vector<bool> ok, Vector<double> sums, Vector<const Index> first_sum);
void safe_nodes(Matrix<const double> x, Vector<const Index> rows, Vector<const Index> nodes,
                Vector<const Index> offsets, Matrix<const Index> coordinates, Vector<const double> weight,
                Cube<const Index> boxes, Index group,
                List<Cube<const double>> forward, List<Matrix<const double>> forward_exponents,
                List<Cube<const double>> backward, List<Matrix<const double>> backward_exponents, Matrix<const Index> whole,
                Vector<double> value, Matrix<double> log_p, Vector<double> sums, Vector<const Index> first);

// dense.cpp
template <class T>
void squared_gibbs(Matrix<const double> points, Matrix<const double> table, Cube<T> strips);
template <class T>
void times(Matrix<const T> a, Vector<const T> b, Index origin, Index between, Index step, Matrix<T> c);
template <class T>
void shifted_exp(Matrix<const double> x, Vector<double> top, Matrix<T> out);
template <class T>
void divide(Matrix<const T> masses, Matrix<T> z, double tiny, Vector<double> value, Vector<double> largest,
            Vector<bool> ok);
template <class T>
void log_gradients(Matrix<const double> x, Vector<const double> top, Matrix<const T> sums, Vector<const double> largest,
                   double tiny, Vector<bool> ok, Matrix<double> log_p);
template <class T>
void dense_nodes(Matrix<const double> x, Matrix<const T> masses, Vector<const T> to_atoms,
                 Vector<const Index> atoms_layout, Vector<const T> to_support, Vector<const Index> support_layout,
                 double tiny, Matrix<T> e, Matrix<T> z, Matrix<T> sums, Vector<double> top, Vector<double> value,
                 Matrix<double> log_p, Vector<bool> ok);
template <class T>
void log_sums(Matrix<const T> z, Vector<const double> top, Vector<const Index> position, Vector<const Index> offsets,
              Vector<const Index> starts, double tiny, Vector<double> out, Vector<bool> ok);

// bounds.cpp
void missing_rows(Matrix<const double> x, Matrix<double> log_rows, Vector<const double> p, Matrix<const double> features,
                  Matrix<double> sums);

// anderson.cpp
void weighted_mean(Matrix<const double> rows, Vector<const double> weights, Vector<double> out);
void residual(Matrix<double> log_p, Vector<const double> mean, Vector<const double> p, Vector<double> error);
template <class H>
void close_slot(Matrix<const double> r, double relaxation, Matrix<H> change, Matrix<H> move);
template <class H>
void gram(Cube<const H> changes, Index count, Matrix<const double> r, Vector<const double> weights,
          Vector<const double> p, Cube<double> out);
bool least_squares(Matrix<const double> table, double ridge, Vector<double> out);
template <class H>
void accelerate(Matrix<double> x, Matrix<const double> r, Vector<const double> drift, Matrix<double> fallback,
                Cube<H> moves, Cube<H> changes, Index count, Vector<const double> coefficients,
                double relaxation, Index slot);

// atoms.cpp
template <class T>
void evaluate_atoms(Matrix<const T> lam, T scale, Matrix<const T> support_t, Matrix<const T> points,
                    Matrix<const T> cost, Vector<const Index> index, Vector<const T> weight, Vector<const Index> start,
                    Vector<const Index> stop, Vector<double> value, Matrix<T> p, Matrix<double> log_p);
template <class T>
void approach_atoms(Vector<const Index> rows, Index steps, Matrix<const double> target, double largest, bool centred,
                    Matrix<const T> support_t, Matrix<const T> points, Matrix<const T> cost, Vector<const Index> index,
                    Vector<const T> weight, Vector<const Index> start, Vector<const Index> stop, Matrix<double> x);
template <class T>
void atom_log_sums(Matrix<const T> x, Matrix<const T> support_t, Matrix<const T> points, Matrix<const T> cost,
                   Vector<const Index> index, Vector<const Index> start, Vector<const Index> stop,
                   Vector<const Index> first, Vector<double> out);
template <class T>
void squared_costs(Matrix<const T> support_t, Matrix<const T> points, Matrix<T> out);

// moving.cpp
template <class T>
void evaluate_moving(Matrix<const T> x, Matrix<const T> support_t, Matrix<const T> points, Matrix<const T> cost,
                     Vector<const Index> index, Vector<const T> weight, Vector<const Index> start,
                     Vector<const Index> stop, Vector<double> value, Matrix<double> log_p);
template <class T>
void project_atoms(Matrix<const T> x, Matrix<const T> support_t, Matrix<const T> points, Matrix<const T> cost,
                   Matrix<const T> coordinates, Vector<const Index> index, Vector<const T> weight,
                   Vector<const Index> start, Vector<const Index> stop, Cube<T> sums);
template <class T>
void share_products(Matrix<const T> x, Matrix<const T> support_t, Matrix<const T> points, Matrix<const T> cost,
                    Vector<const Index> index, Vector<const T> weight, Vector<const Index> start,
                    Vector<const Index> stop, Cube<double> out);

// linear.cpp
void factor_systems(Cube<double> a);
void solve_systems(Cube<const double> u, Matrix<double> b);

// sampled.cpp
void draw_points(std::uint64_t seed, Vector<const Index> nodes, Vector<const Index> activations,
                 Vector<const Index> starts, Vector<const Index> first, Vector<const Index> last,
                 Vector<const double> cumulative, Matrix<const double> centres, Vector<const Index> root,
                 Cube<const double> roots, Matrix<double> points);
void mean_softmax(Matrix<const double> lam, double scale, Matrix<const double> support_t, Matrix<const double> points,
                  Matrix<const double> cost, Vector<const Index> starts, Matrix<double> p);
void sampled_gradients(Matrix<const double> lam, double scale, Matrix<const double> support_t, std::uint64_t seed,
                       Vector<const Index> nodes, Vector<const Index> activations, Vector<const Index> starts,
                       Vector<const Index> first, Vector<const Index> last, Vector<const double> cumulative,
                       Matrix<const double> centres, Vector<const Index> root, Cube<const double> roots,
                       Matrix<double> p);
void sampled_grid_gradients(Matrix<const double> lam, double scale, Matrix<const double> support_t,
                            List<Vector<const double>> axes, std::uint64_t seed, Vector<const Index> nodes,
                            Vector<const Index> activations, Vector<const Index> starts, Vector<const Index> first,
                            Vector<const Index> last, Vector<const double> cumulative, Matrix<const double> centres,
                            Vector<const Index> root, Cube<const double> roots, Matrix<double> p);

// methods.cpp
double l1_distance(Vector<const double> log_p, Vector<const double> log_q);
void l1_distances(Vector<const Index> nodes, Vector<const bool> known, double unknown, Matrix<const double> h,
                  Matrix<const double> target, Vector<double> out);
void adapt_relaxations(Vector<const Index> nodes, Vector<const double> errors, double less, double more, double least,
                       double most, Vector<double> error, Vector<double> relaxation);
void move_potentials(Vector<const Index> nodes, Vector<const double> relaxation, Matrix<const double> h,
                     Matrix<const double> target, double largest, bool centred, Matrix<double> x);
void accelerated_points(Matrix<double> omega, Matrix<double> momentum, Vector<Index> last_index,
                        Vector<double> last_excess, Vector<const Index> nodes, Vector<const Index> index,
                        Vector<const double> excess, Index size, Vector<const double> scale, bool naive,
                        Matrix<double> lam, Vector<double> share);
void accelerated_step(Matrix<double> omega, Matrix<double> momentum, Vector<const Index> nodes, double step,
                      Vector<const double> share, Matrix<const double> g, Matrix<const double> totals,
                      Vector<const Index> counts);
double theta_excesses(double excess, Index start, Index m, Vector<double> out);
void squared_differences(Matrix<const double> p, Matrix<const Index> edges, Vector<double> out);

// schedules.cpp
void waiting_times(std::uint64_t seed, Vector<const Index> nodes, Vector<const Index> counts, double jitter,
                   Vector<double> out);
void permutation(std::uint64_t seed, Index window, Vector<Index> out);

// tree.cpp
void become_root(const Tree& tree, Index row, double epoch);
void update_tree(const Tree& tree, Vector<const Index> nodes, Vector<const Index> beats, Vector<const Index> first,
                 Vector<const Index> last, Vector<const std::int32_t> slots, Matrix<const double> rows,
                 Matrix<double> targets, double total, Matrix<double> messages, Matrix<double> sums, bool words,
                 Matrix<bool> findings);
void write_messages(const Tree& tree, Vector<const Index> nodes, Vector<const Index> beats,
                    Vector<const double> errors, double tol, List<Matrix<const double>> parts, Matrix<const double> sums,
                    Vector<const double> lower, Vector<const double> upper, Matrix<const double> targets,
                    double largest_check, bool words, Matrix<double> messages, Matrix<bool> findings);
void settle_nodes(const Tree& tree, Vector<const Index> nodes, Matrix<bool> findings);

// checks.cpp
bool all_within(Matrix<const double> values, Vector<const double> lower, Vector<const double> upper);
bool is_possible(Vector<const double> message, Index sender, double key, double declared, Vector<const double> around,
                 double hops, Vector<const double> lower, Vector<const double> upper);

// growing.cpp
void draw_sample_entries(std::uint64_t seed, Index batch, Vector<const Index> nodes, Vector<const Index> starts,
                         Matrix<double> points, Vector<const bool> discrete, Vector<const double> origin, double unit,
                         Vector<const Index> first, Vector<const Index> last, Vector<const double> cumulative,
                         Matrix<const double> values, Vector<const Index> root, Cube<const double> roots,
                         Vector<const Index> batches, Vector<Index> size, Vector<Index> level, Vector<Index> keys,
                         Vector<Index> counts, Matrix<Index> sums, Vector<Index> new_sizes);
void merge_sample_entries(Vector<const Index> nodes, Index batch, Vector<const Index> starts,
                          Vector<const Index> new_sizes, Vector<Index> new_keys, Vector<Index> new_counts,
                          Matrix<Index> new_sums, Vector<const Index> most, Vector<Index> batches, Vector<Index> size,
                          Vector<Index> level, Vector<const Index> begin, Vector<Index> keys, Vector<Index> counts,
                          Matrix<Index> sums);
void copy_sample_tables(Vector<const Index> nodes, Vector<const Index> size, Vector<const Index> begin,
                        Vector<const Index> keys, Vector<const Index> counts, Matrix<const Index> sums,
                        Vector<const Index> new_begin, Vector<Index> new_keys, Vector<Index> new_counts,
                        Matrix<Index> new_sums);
void merged_sample(Vector<const Index> nodes, Vector<const Index> offsets, Index batch, Vector<const bool> discrete,
                   Vector<const double> origin, double unit, Matrix<const double> centres, Vector<const Index> batches,
                   Vector<const Index> begin, Vector<const Index> keys, Vector<const Index> counts,
                   Matrix<const Index> sums, Matrix<double> points, Vector<double> weights);

// delivery.cpp
Index sort_by_node(Vector<const Index> nodes, Vector<const Index> acted, Vector<const Index> offsets,
                   Vector<Index> order, Vector<Index> group, Vector<Index> starts, Vector<Index> numbers,
                   Vector<Index> newest);
void record_sent(Vector<const Index> nodes, Vector<const Index> numbers, Vector<const double> times,
                 Vector<const std::int32_t> rows, Rings rings);
void find_newest(Slab slab, Edges edges, Vector<const Index> newest, Index reach, Rings rings, Newest held,
                 Vector<const double> since, Delays delays, double shortest, Faults faults, Newest received);
void find_newest_fast(Slab slab, Edges edges, Vector<const Index> newest, Index reach, Rings rings, Newest held,
                      Vector<const double> law, Newest received);
Index execution_levels(Slab slab, Edges edges, Vector<const Index> acted, Vector<const std::int32_t> received_number,
                       Vector<Index> level);
Index mark_used(double now, Edges edges, Vector<const Index> acted, Index reach, Rings rings, Newest held,
                Vector<const double> since, Delays delays, Faults faults, Vector<bool> used);
Index mark_used_fast(Edges edges, Vector<const Index> acted, Rings rings, Newest held, Vector<bool> used);
void idle_activations(Vector<const Index> nodes, Vector<const double> times, Spans idle, Vector<bool> out);
void round_ends(Index number, double start, Edges edges, Delays delays, Faults faults, Spans idle, Vector<double> ends,
                Vector<Index> sent);
void edge_streams(std::uint64_t seed, Vector<const Index> sender, Vector<const Index> receiver,
                  Vector<std::uint64_t> out);
void arrival_times(Vector<const Index> numbers, Vector<const double> sent, Vector<const Index> chosen,
                   Vector<const Index> receiver, Edges edges, Delays delays, Faults faults, Vector<double> out);

// inbox.cpp
void sum_messages(Vector<const Index> first, Vector<const Index> last, Vector<const std::int32_t> slots,
                  Matrix<const double> pool, Index no_message, Matrix<double> totals, Vector<Index> counts);
void store_messages(Vector<const std::int32_t> slots, Matrix<const double> messages, Matrix<double> pool);

}  // namespace barymesh::INSTRUCTION_SET
