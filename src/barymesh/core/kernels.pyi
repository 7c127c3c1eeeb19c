"""The compiled kernels: loops over arrays of numbers, and no other logic.

Arrays are C-contiguous and of exactly these types; others are refused, and nothing is copied. The comments above the
definitions, in the C++ file that each section names, say what a kernel computes.
"""

import numpy as np
from numpy.typing import NDArray

from barymesh.core import tree as python

Floats = NDArray[np.float64]
# float32, or the upper halves of such numbers: Brief in core/arrays.h
History = NDArray[np.float32] | NDArray[np.uint16]
Reals = NDArray[np.float64] | NDArray[np.float32]
Indices = NDArray[np.intp]
Words = NDArray[np.uint64]
Integers = NDArray[np.int32]
Flags = NDArray[np.bool_]

INSTRUCTION_SET: str
STRIP: int
LONGEST_HISTORY: int

def set_threads(count: int) -> None: ...
def threads() -> int: ...

# elements.cpp
def vector_exp(x: Reals, out: Reals) -> None: ...
def vector_log(x: Floats, out: Floats) -> None: ...
def vector_sum(a: Reals) -> float: ...
def vector_dot(a: Floats, b: Reals) -> float: ...
def part_of_product(a: Reals, b: Reals, c: Reals, rows: Indices, columns: Indices, inner: Indices) -> None: ...
def random_words(stream: int, out: Words) -> None: ...
def random_normals(stream: int, out: Floats) -> None: ...

# grid.cpp
def fast_nodes(
    x: Floats,
    nodes: Indices,
    offsets: Indices,
    position: Indices,
    padded_position: Indices,
    weight: Floats,
    first: Reals,
    others: tuple[Reals, ...],
    backward_first: Reals,
    backward_others: tuple[Reals, ...],
    boxes: Indices,
    whole: Indices,
    scratch: Indices,
    value: Floats,
    log_p: Floats,
    ok: Flags,
    sums: Floats,
    first_sum: Indices,
) -> None: ...
def safe_nodes(
    x: Floats,
    rows: Indices,
    nodes: Indices,
    offsets: Indices,
    coordinates: Indices,
    weight: Floats,
    boxes: Indices,
    group: int,
    forward: tuple[Floats, ...],
    forward_exponents: tuple[Floats, ...],
    backward: tuple[Floats, ...],
    backward_exponents: tuple[Floats, ...],
    whole: Indices,
    value: Floats,
    log_p: Floats,
    sums: Floats,
    first: Indices,
) -> None: ...

# dense.cpp
def squared_gibbs(points: Floats, table: Floats, strips: Reals) -> None: ...
def times(a: Reals, b: Reals, origin: int, between: int, step: int, c: Reals) -> None: ...
def shifted_exp(x: Floats, top: Floats, out: Reals) -> None: ...
def divide(masses: Reals, z: Reals, tiny: float, value: Floats, largest: Floats, ok: Flags) -> None: ...
def log_gradients(
    x: Floats, top: Floats, sums: Reals, largest: Floats, tiny: float, ok: Flags, log_p: Floats
) -> None: ...
def dense_nodes(
    x: Floats,
    masses: Reals,
    to_atoms: Reals,
    atoms_layout: Indices,
    to_support: Reals,
    support_layout: Indices,
    tiny: float,
    e: Reals,
    z: Reals,
    sums: Reals,
    top: Floats,
    value: Floats,
    log_p: Floats,
    ok: Flags,
) -> None: ...
def log_sums(
    z: Reals, top: Floats, position: Indices, offsets: Indices, starts: Indices, tiny: float, out: Floats, ok: Flags
) -> None: ...

# bounds.cpp
def missing_rows(x: Floats, log_rows: Floats, p: Floats, features: Floats, sums: Floats) -> None: ...

# anderson.cpp
def weighted_mean(rows: Floats, weights: Floats, out: Floats) -> None: ...
def residual(log_p: Floats, mean: Floats, p: Floats, error: Floats) -> None: ...
def close_slot(r: Floats, relaxation: float, change: History, move: History) -> None: ...
def gram(changes: History, count: int, r: Floats, weights: Floats, p: Floats, out: Floats) -> None: ...
def least_squares(table: Floats, ridge: float, out: Floats) -> bool: ...
def accelerate(
    x: Floats,
    r: Floats,
    drift: Floats,
    fallback: Floats,
    moves: History,
    changes: History,
    count: int,
    coefficients: Floats,
    relaxation: float,
    slot: int,
) -> None: ...

# delivery.cpp; the tuples are the structs of messages.h
Edges = tuple[Indices, NDArray[np.uint32], Words]
Delays = tuple[Floats, Floats, Indices]
Spans = tuple[Floats, Indices]
Faults = tuple[Floats, Floats, Indices, Floats, Indices]
Rings = tuple[Floats, Integers]
Newest = tuple[Integers, Integers]
Slab = tuple[Indices, Floats, Indices, Indices, Indices]

TICKS: float
FOREVER: float
SPACED: int
CATEGORICAL: int
LOG_NORMAL: int
TRACE: int

def sort_by_node(
    nodes: Indices,
    acted: Indices,
    offsets: Indices,
    order: Indices,
    group: Indices,
    starts: Indices,
    numbers: Indices,
    newest: Indices,
) -> int: ...
def record_sent(nodes: Indices, numbers: Indices, times: Floats, rows: Integers, rings: Rings) -> None: ...
def find_newest(
    slab: Slab,
    edges: Edges,
    newest: Indices,
    reach: int,
    rings: Rings,
    held: Newest,
    since: Floats,
    delays: Delays,
    shortest: float,
    faults: Faults,
    received: Newest,
) -> None: ...
def find_newest_fast(
    slab: Slab,
    edges: Edges,
    newest: Indices,
    reach: int,
    rings: Rings,
    held: Newest,
    law: Floats,
    received: Newest,
) -> None: ...
def execution_levels(slab: Slab, edges: Edges, acted: Indices, received_number: Integers, level: Indices) -> int: ...
def mark_used(
    now: float,
    edges: Edges,
    acted: Indices,
    reach: int,
    rings: Rings,
    held: Newest,
    since: Floats,
    delays: Delays,
    faults: Faults,
    used: Flags,
) -> int: ...
def mark_used_fast(edges: Edges, acted: Indices, rings: Rings, held: Newest, used: Flags) -> int: ...
def idle_activations(nodes: Indices, times: Floats, idle: Spans, out: Flags) -> None: ...
def round_ends(
    number: int,
    start: float,
    edges: Edges,
    delays: Delays,
    faults: Faults,
    idle: Spans,
    ends: Floats,
    sent: Indices,
) -> None: ...
def edge_streams(seed: int, sender: Indices, receiver: Indices, out: Words) -> None: ...
def arrival_times(
    numbers: Indices,
    sent: Floats,
    chosen: Indices,
    receiver: Indices,
    edges: Edges,
    delays: Delays,
    faults: Faults,
    out: Floats,
) -> None: ...

# inbox.cpp
MESSAGE_COLUMNS: int

def sum_messages(
    first: Indices,
    last: Indices,
    slots: Integers,
    pool: Floats,
    no_message: int,
    totals: Floats,
    counts: Indices,
) -> None: ...
def store_messages(slots: Integers, messages: Floats, pool: Floats) -> None: ...

# tree.cpp
FAR: float
NEVER_CHANGED: float
LAST_EPOCH: float
STRIDE: float
HEADER_FIELDS: tuple[str, ...]
FINDINGS: tuple[str, ...]

class Tree:
    """Views of the arrays of a tree, which must stay where they are."""

    def __init__(self, arrays: python.Tree) -> None: ...

def become_root(tree: Tree, row: int, epoch: float) -> None: ...
def update_tree(
    tree: Tree,
    nodes: Indices,
    beats: Indices,
    first: Indices,
    last: Indices,
    slots: Integers,
    rows: Floats,
    targets: Floats,
    total: float,
    messages: Floats,
    sums: Floats,
    words: bool,
    findings: Flags,
) -> None: ...
def write_messages(
    tree: Tree,
    nodes: Indices,
    beats: Indices,
    errors: Floats,
    tol: float,
    parts: tuple[Floats, ...],
    sums: Floats,
    lower: Floats,
    upper: Floats,
    targets: Floats,
    largest_check: float,
    words: bool,
    messages: Floats,
    findings: Flags,
) -> None: ...
def settle_nodes(tree: Tree, nodes: Indices, findings: Flags) -> None: ...

# checks.cpp
def all_within(values: Floats, lower: Floats, upper: Floats) -> bool: ...
def is_possible(
    message: Floats,
    sender: int,
    key: float,
    declared: float,
    around: Floats,
    hops: float,
    lower: Floats,
    upper: Floats,
) -> bool: ...

# growing.cpp
CELL_BITS: int
MOST_AXES: int

def draw_sample_entries(
    seed: int,
    batch: int,
    nodes: Indices,
    starts: Indices,
    points: Floats,
    discrete: Flags,
    origin: Floats,
    unit: float,
    first: Indices,
    last: Indices,
    cumulative: Floats,
    values: Floats,
    root: Indices,
    roots: Floats,
    batches: Indices,
    size: Indices,
    level: Indices,
    keys: Indices,
    counts: Indices,
    sums: Indices,
    new_sizes: Indices,
) -> None: ...
def merge_sample_entries(
    nodes: Indices,
    batch: int,
    starts: Indices,
    new_sizes: Indices,
    new_keys: Indices,
    new_counts: Indices,
    new_sums: Indices,
    most: Indices,
    batches: Indices,
    size: Indices,
    level: Indices,
    begin: Indices,
    keys: Indices,
    counts: Indices,
    sums: Indices,
) -> None: ...
def copy_sample_tables(
    nodes: Indices,
    size: Indices,
    begin: Indices,
    keys: Indices,
    counts: Indices,
    sums: Indices,
    new_begin: Indices,
    new_keys: Indices,
    new_counts: Indices,
    new_sums: Indices,
) -> None: ...
def merged_sample(
    nodes: Indices,
    offsets: Indices,
    batch: int,
    discrete: Flags,
    origin: Floats,
    unit: float,
    centres: Floats,
    batches: Indices,
    begin: Indices,
    keys: Indices,
    counts: Indices,
    sums: Indices,
    points: Floats,
    weights: Floats,
) -> None: ...

# atoms.cpp
def evaluate_atoms(
    lam: Reals,
    scale: float,
    support_t: Reals,
    points: Reals,
    cost: Reals,
    index: Indices,
    weight: Reals,
    start: Indices,
    stop: Indices,
    value: Floats,
    p: Reals,
    log_p: Floats,
) -> None: ...
def approach_atoms(
    rows: Indices,
    steps: int,
    target: Floats,
    largest: float,
    centred: bool,
    support_t: Reals,
    points: Reals,
    cost: Reals,
    index: Indices,
    weight: Reals,
    start: Indices,
    stop: Indices,
    x: Floats,
) -> None: ...
def atom_log_sums(
    x: Reals,
    support_t: Reals,
    points: Reals,
    cost: Reals,
    index: Indices,
    start: Indices,
    stop: Indices,
    first: Indices,
    out: Floats,
) -> None: ...
def squared_costs(support_t: Reals, points: Reals, out: Reals) -> None: ...

# moving.cpp
def evaluate_moving(
    x: Reals,
    support_t: Reals,
    points: Reals,
    cost: Reals,
    index: Indices,
    weight: Reals,
    start: Indices,
    stop: Indices,
    value: Floats,
    log_p: Floats,
) -> None: ...
def project_atoms(
    x: Reals,
    support_t: Reals,
    points: Reals,
    cost: Reals,
    coordinates: Reals,
    index: Indices,
    weight: Reals,
    start: Indices,
    stop: Indices,
    sums: Reals,
) -> None: ...
def share_products(
    x: Reals,
    support_t: Reals,
    points: Reals,
    cost: Reals,
    index: Indices,
    weight: Reals,
    start: Indices,
    stop: Indices,
    out: Floats,
) -> None: ...

# linear.cpp
def factor_systems(a: Floats) -> None: ...
def solve_systems(u: Floats, b: Floats) -> None: ...

# sampled.cpp
def draw_points(
    seed: int,
    nodes: Indices,
    activations: Indices,
    starts: Indices,
    first: Indices,
    last: Indices,
    cumulative: Floats,
    centres: Floats,
    root: Indices,
    roots: Floats,
    points: Floats,
) -> None: ...
def mean_softmax(
    lam: Floats, scale: float, support_t: Floats, points: Floats, cost: Floats, starts: Indices, p: Floats
) -> None: ...
def sampled_gradients(
    lam: Floats,
    scale: float,
    support_t: Floats,
    seed: int,
    nodes: Indices,
    activations: Indices,
    starts: Indices,
    first: Indices,
    last: Indices,
    cumulative: Floats,
    centres: Floats,
    root: Indices,
    roots: Floats,
    p: Floats,
) -> None: ...
def sampled_grid_gradients(
    lam: Floats,
    scale: float,
    support_t: Floats,
    axes: tuple[Floats, ...],
    seed: int,
    nodes: Indices,
    activations: Indices,
    starts: Indices,
    first: Indices,
    last: Indices,
    cumulative: Floats,
    centres: Floats,
    root: Indices,
    roots: Floats,
    p: Floats,
) -> None: ...

# methods.cpp
def l1_distance(log_p: Floats, log_q: Floats) -> float: ...
def l1_distances(nodes: Indices, known: Flags, unknown: float, h: Floats, target: Floats, out: Floats) -> None: ...
def adapt_relaxations(
    nodes: Indices,
    errors: Floats,
    less: float,
    more: float,
    least: float,
    most: float,
    error: Floats,
    relaxation: Floats,
) -> None: ...
def move_potentials(
    nodes: Indices, relaxation: Floats, h: Floats, target: Floats, largest: float, centred: bool, x: Floats
) -> None: ...
def accelerated_points(
    omega: Floats,
    momentum: Floats,
    last_index: Indices,
    last_excess: Floats,
    nodes: Indices,
    index: Indices,
    excess: Floats,
    size: int,
    scale: Floats,
    naive: bool,
    lam: Floats,
    share: Floats,
) -> None: ...
def accelerated_step(
    omega: Floats,
    momentum: Floats,
    nodes: Indices,
    step: float,
    share: Floats,
    g: Floats,
    totals: Floats,
    counts: Indices,
) -> None: ...
def theta_excesses(excess: float, start: int, m: int, out: Floats) -> float: ...
def squared_differences(p: Floats, edges: Indices, out: Floats) -> None: ...

# schedules.cpp
def waiting_times(seed: int, nodes: Indices, counts: Indices, jitter: float, out: Floats) -> None: ...
def permutation(seed: int, window: int, out: Indices) -> None: ...
