// The Python module: every kernel in one line, from the instruction set chosen at import.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "arrays.h"
#include "growing.h"
#include "threads.h"
#include "tree.h"

#if defined(__x86_64__)
#define INSTRUCTION_SETS 3
#define INSTRUCTION_SET avx512
#include "kernels.h"
#undef INSTRUCTION_SET
#define INSTRUCTION_SET avx2
#include "kernels.h"
#undef INSTRUCTION_SET
#else
#define INSTRUCTION_SETS 1
#endif
#define INSTRUCTION_SET baseline
#include "kernels.h"
#undef INSTRUCTION_SET

namespace nb = nanobind;
using namespace barymesh;

// Arrays are passed as they are: C-contiguous and of the right type, or they are refused. Nothing is copied.
namespace nanobind::detail {

template <class View, class Array>
struct view_caster {
    NB_TYPE_CASTER(View, make_caster<Array>::Name)
    bool from_python(handle source, uint8_t, cleanup_list* cleanup) noexcept {
        make_caster<Array> caster;
        if (!caster.from_python(source, 0, cleanup)) return false;
        const Array& array = caster.value;
        if constexpr (requires { View{array.data(), 1, 1, 1}; })
            value = View{array.data(), Index(array.shape(0)), Index(array.shape(1)), Index(array.shape(2))};
        else if constexpr (requires { View{array.data(), 1, 1}; })
            value = View{array.data(), Index(array.shape(0)), Index(array.shape(1))};
        else
            value = View{array.data(), Index(array.shape(0))};
        return true;
    }
};
template <class T>
struct type_caster<Vector<T>> : view_caster<Vector<T>, ndarray<T, numpy, shape<-1>, c_contig, device::cpu>> {};
template <class T>
struct type_caster<Matrix<T>> : view_caster<Matrix<T>, ndarray<T, numpy, shape<-1, -1>, c_contig, device::cpu>> {};
template <class T>
struct type_caster<Cube<T>> : view_caster<Cube<T>, ndarray<T, numpy, shape<-1, -1, -1>, c_contig, device::cpu>> {};

template <class A>
struct type_caster<List<A>> {
    NB_TYPE_CASTER(List<A>, const_name("tuple[") + make_caster<A>::Name + const_name(", ...]"))
    bool from_python(handle source, uint8_t flags, cleanup_list* cleanup) noexcept {
        if (!PyTuple_Check(source.ptr()) || len(source) > List<A>::MOST) return false;
        value.size = 0;
        for (handle item : borrow<nanobind::tuple>(source)) {
            make_caster<A> caster;
            if (!caster.from_python(item, flags, cleanup)) return false;
            value.items[value.size++] = caster.value;
        }
        return true;
    }
};

// a tuple of arrays as a struct that names them
template <class Record>
    requires requires(Record record) { record.fields([](auto&...) { return true; }); }
struct type_caster<Record> {
    NB_TYPE_CASTER(Record, const_name("tuple"))
    bool from_python(handle source, uint8_t flags, cleanup_list* cleanup) noexcept {
        if (!PyTuple_Check(source.ptr())) return false;
        const auto arrays = borrow<nanobind::tuple>(source);
        const auto read = [&]<class Array>(Array& field, handle item) {
            make_caster<Array> caster;
            if (!caster.from_python(item, flags, cleanup)) return false;
            field = caster.value;
            return true;
        };
        return value.fields([&](auto&... field) {
            size_t k = 0;
            return arrays.size() == sizeof...(field) && (read(field, arrays[k++]) && ...);
        });
    }
};

}  // namespace nanobind::detail

namespace {

enum Choice { BASELINE, AVX2, AVX512 };
Choice choice = BASELINE;
constexpr const char* NAMES[] = {"baseline", "avx2", "avx512"};

Choice best_choice() {
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                      __builtin_cpu_supports("bmi2");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return AVX512;
    return avx2 ? AVX2 : BASELINE;
#else
    return BASELINE;
#endif
}

// The best instruction set of this processor, or the one that BARYMESH_INSTRUCTION_SET names.
void choose() {
    choice = best_choice();
    const char* wanted = std::getenv("BARYMESH_INSTRUCTION_SET");
    if (!wanted || !*wanted) return;
    for (int k = 0; k <= choice; ++k)
        if (!std::strcmp(wanted, NAMES[k])) {
            choice = static_cast<Choice>(k);
            return;
        }
    std::string possible;
    for (int k = 0; k <= choice; ++k) possible += std::string(k ? ", " : "") + NAMES[k];
    throw std::invalid_argument("BARYMESH_INSTRUCTION_SET is \"" + std::string(wanted) +
                                "\"; this processor has: " + possible + ". Choose one of these, or unset it.");
}

#if INSTRUCTION_SETS == 3
#define CHOSEN(...) (choice == AVX512 ? &avx512::__VA_ARGS__ : choice == AVX2 ? &avx2::__VA_ARGS__ : &baseline::__VA_ARGS__)
#else
#define CHOSEN(...) (&baseline::__VA_ARGS__)
#endif
#define KERNEL(name, ...) m.def(name, CHOSEN(__VA_ARGS__), nb::call_guard<nb::gil_scoped_release>())

template <class... Name>
nb::tuple names_of(int, Name... name) {
    return nb::make_tuple(name...);
}

// The views of the arrays in a named tuple, which are of one length.
Tree tree_of(nb::tuple arrays) {
    Tree tree;
    Index size = -1;
    const auto read = [&]<class View>(const char* name, View& view) {
        if (!nb::try_cast(nb::getattr(arrays, name, nb::none()), view, false) || (size >= 0 && view.size != size))
            throw nb::type_error((std::string("Tree: ") + name + " is not an array of the kind that kernels use").c_str());
        size = view.size;
    };
#define READ(type, name) read(#name, tree.name);
    TREE_FIELDS(READ)
#undef READ
    return tree;
}

}  // namespace

NB_MODULE(kernels, m) {
    m.doc() = "The compiled kernels: loops over arrays of numbers, and no other logic.";
    choose();
    m.attr("INSTRUCTION_SET") = NAMES[choice];
    m.def("set_threads", &set_threads);
    m.def("threads", &threads);
    m.attr("STRIP") = STRIP;
    m.attr("LONGEST_HISTORY") = LONGEST_HISTORY;

    // elements.cpp
    KERNEL("vector_exp", vector_exp<double>);
    KERNEL("vector_exp", vector_exp<float>);
    KERNEL("vector_log", vector_log);
    KERNEL("vector_sum", vector_sum<double>);
    KERNEL("vector_sum", vector_sum<float>);
    KERNEL("vector_dot", vector_dot<double, double>);
    KERNEL("vector_dot", vector_dot<double, float>);
    KERNEL("part_of_product", part_of_product<double>);
    KERNEL("part_of_product", part_of_product<float>);
    KERNEL("random_words", random_words);
    KERNEL("random_normals", random_normals);

    // grid.cpp
    KERNEL("fast_nodes", fast_nodes<double>);
    KERNEL("fast_nodes", fast_nodes<float>);
    KERNEL("safe_nodes", safe_nodes);

    // dense.cpp
    KERNEL("squared_gibbs", squared_gibbs<double>);
    KERNEL("squared_gibbs", squared_gibbs<float>);
    KERNEL("times", times<double>);
    KERNEL("times", times<float>);
    KERNEL("shifted_exp", shifted_exp<double>);
    KERNEL("shifted_exp", shifted_exp<float>);
    KERNEL("divide", divide<double>);
    KERNEL("divide", divide<float>);
    KERNEL("log_gradients", log_gradients<double>);
    KERNEL("log_gradients", log_gradients<float>);
    KERNEL("dense_nodes", dense_nodes<double>);
    KERNEL("dense_nodes", dense_nodes<float>);
    KERNEL("log_sums", log_sums<double>);
    KERNEL("log_sums", log_sums<float>);

    // bounds.cpp
    KERNEL("missing_rows", missing_rows);

    // anderson.cpp
    KERNEL("weighted_mean", weighted_mean);
    KERNEL("residual", residual);
    KERNEL("close_slot", close_slot<float>);
    KERNEL("close_slot", close_slot<Brief>);
    KERNEL("gram", gram<float>);
    KERNEL("gram", gram<Brief>);
    KERNEL("least_squares", least_squares);
    KERNEL("accelerate", accelerate<float>);
    KERNEL("accelerate", accelerate<Brief>);

    // atoms.cpp
    KERNEL("evaluate_atoms", evaluate_atoms<double>);
    KERNEL("evaluate_atoms", evaluate_atoms<float>);
    KERNEL("approach_atoms", approach_atoms<double>);
    KERNEL("approach_atoms", approach_atoms<float>);
    KERNEL("atom_log_sums", atom_log_sums<double>);
    KERNEL("atom_log_sums", atom_log_sums<float>);
    KERNEL("squared_costs", squared_costs<double>);
    KERNEL("squared_costs", squared_costs<float>);

    // moving.cpp
    KERNEL("evaluate_moving", evaluate_moving<double>);
    KERNEL("evaluate_moving", evaluate_moving<float>);
    KERNEL("project_atoms", project_atoms<double>);
    KERNEL("project_atoms", project_atoms<float>);
    KERNEL("share_products", share_products<double>);
    KERNEL("share_products", share_products<float>);

    // linear.cpp
    KERNEL("factor_systems", factor_systems);
    KERNEL("solve_systems", solve_systems);

    // sampled.cpp
    KERNEL("draw_points", draw_points);
    KERNEL("mean_softmax", mean_softmax);
    KERNEL("sampled_gradients", sampled_gradients);
    KERNEL("sampled_grid_gradients", sampled_grid_gradients);

    // methods.cpp
    KERNEL("l1_distance", l1_distance);
    KERNEL("l1_distances", l1_distances);
    KERNEL("adapt_relaxations", adapt_relaxations);
    KERNEL("move_potentials", move_potentials);
    KERNEL("accelerated_points", accelerated_points);
    KERNEL("accelerated_step", accelerated_step);
    KERNEL("theta_excesses", theta_excesses);
    KERNEL("squared_differences", squared_differences);

    // schedules.cpp
    KERNEL("waiting_times", waiting_times);
    KERNEL("permutation", permutation);

    // tree.cpp
    m.attr("FAR") = FAR;
    m.attr("NEVER_CHANGED") = NEVER_CHANGED;
    m.attr("LAST_EPOCH") = LAST_EPOCH;
    m.attr("STRIDE") = STRIDE;
#define QUOTED(name) , #name
    m.attr("HEADER_FIELDS") = names_of(0 HEADER_FIELDS(QUOTED));
    m.attr("FINDINGS") = names_of(0 FINDINGS(QUOTED));
#undef QUOTED
    // the tuple keeps the arrays alive
    nb::class_<Tree>(m, "Tree").def("__init__", [](Tree* tree, nb::tuple arrays) { new (tree) Tree(tree_of(arrays)); },
                                    nb::keep_alive<1, 2>());
    KERNEL("become_root", become_root);
    KERNEL("update_tree", update_tree);
    KERNEL("write_messages", write_messages);
    KERNEL("settle_nodes", settle_nodes);

    // checks.cpp
    KERNEL("all_within", all_within);
    KERNEL("is_possible", is_possible);

    // growing.cpp
    m.attr("CELL_BITS") = CELL_BITS;
    m.attr("MOST_AXES") = MOST_AXES;
    KERNEL("draw_sample_entries", draw_sample_entries);
    KERNEL("merge_sample_entries", merge_sample_entries);
    KERNEL("copy_sample_tables", copy_sample_tables);
    KERNEL("merged_sample", merged_sample);

    // delivery.cpp
    m.attr("TICKS") = TICKS;
    m.attr("FOREVER") = FOREVER;
    m.attr("SPACED") = int(SPACED);
    m.attr("CATEGORICAL") = int(CATEGORICAL);
    m.attr("LOG_NORMAL") = int(LOG_NORMAL);
    m.attr("TRACE") = int(TRACE);
    KERNEL("sort_by_node", sort_by_node);
    KERNEL("record_sent", record_sent);
    KERNEL("find_newest", find_newest);
    KERNEL("find_newest_fast", find_newest_fast);
    KERNEL("execution_levels", execution_levels);
    KERNEL("mark_used", mark_used);
    KERNEL("mark_used_fast", mark_used_fast);
    KERNEL("idle_activations", idle_activations);
    KERNEL("round_ends", round_ends);
    KERNEL("edge_streams", edge_streams);
    KERNEL("arrival_times", arrival_times);

    // inbox.cpp
    m.attr("MESSAGE_COLUMNS") = MESSAGE_COLUMNS;
    KERNEL("sum_messages", sum_messages);
    KERNEL("store_messages", store_messages);
}
