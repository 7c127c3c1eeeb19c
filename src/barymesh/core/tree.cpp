// How a node of the spanning tree chooses its parent, and the sums over its children.
//
// A message is a header, the sums over the sender's subtree, and the root's last target: see decentralized/tree. The rules are
// written in plain Python in tests/decentralized/plain_tree.py, and a test compares the two.
#include "random.h"
#include "threads.h"
#include "tree.h"

#include "kernels.h"

namespace barymesh::INSTRUCTION_SET {
namespace {

// added to CHECK for a neighbour without any message: larger than all other terms together
constexpr double MISSING_CHECK = 0x1p52;

// The messages that one node has received: `rows` (messages, columns), of which its neighbours' are those in `slots`.
// Row 0 is zero, and stands for a message that has not come.
struct Received {
    Matrix<const double> rows;
    Vector<const std::int32_t> slots;
    INLINE const double* operator[](Index s) const { return rows.row(slots[s]); }
    INLINE Index size() const { return slots.size; }
};

// a hash of node i, for the checksum
INLINE double node_hash(Index i) {
    return static_cast<double>(1 + static_cast<Index>(mix(static_cast<std::uint64_t>(i) + 1) >> 46));
}

// A new epoch later than `newest` that no node has used: node i and its beat determine the fraction. Epochs below 1
// belong to nodes without memory that have received no other epoch.
double epoch_after(double newest, Index i, Index beat) {
    const std::uint64_t bits = mix(mix(static_cast<std::uint64_t>(i) + 1) + static_cast<std::uint64_t>(beat + 2));
    const double fraction = static_cast<double>(static_cast<Index>(bits >> 44)) * 0x1p-20;
    if (newest >= 1.0) return smaller(__builtin_floor(newest) + 1.0 + 0.9 * fraction, LAST_EPOCH);
    return newest + (1.0 - newest) * (0.25 + 0.5 * fraction);
}

// Discards what the node in row i has from its last root: it has no target of the new one yet.
void forget_root(const Tree& t, Index i) {
    t.stamp[i] = -1.0, t.done[i] = 0.0, t.changed[i] = NEVER_CHANGED;
    t.late[i] = 0, t.late_stamps[i] = 0.0, t.waited[i] = 0;
}

// Whether the node in row i may begin an epoch, or follow others into one, now. If so, it is counted. However often
// somebody asks for new epochs, the tree lasts for a while in between. When the allowance is used up, the next epoch is
// so many activations after this one: so all nodes, which follow one another, may go on at the same time again.
bool may_begin(const Tree& t, Index i) {
    if (t.allowance[i] < 1.0) return false;
    t.allowance[i] = t.allowance[i] < 2.0 ? 0.0 : t.allowance[i] - 1.0;
    return true;
}

// Whether the node in row i believes in an epoch that a neighbour claims: one that is not far from its own, or that most
// neighbours are close to. A node without memory knows of no epoch, and may believe most of those that have sent
// something: the more the longer it has waited for the others.
bool is_credible(const Tree& t, Index i, double epoch, const Received& received) {
    if (epoch <= t.epoch[i] + STRIDE) return true;
    Index close = 0, present = 0;
    for (Index s = 0; s < received.size(); ++s) {
        close += received[s][EPOCH] >= epoch - STRIDE;
        present += received[s][ROOT] != 0.0;
    }
    if (2 * close > received.size()) return true;
    const double far = STRIDE * static_cast<double>(Index{1} << smaller<Index>(t.age[i], 43));
    return t.epoch[i] < 1.0 && epoch <= far && 2 * close > present;
}

// Chooses the parent of the node in row i from the headers of its neighbours.
//
// Within an epoch the pair (root, distance) of a node only decreases, and that of its parent was smaller when the node
// chose it, so parents never form a cycle. Any change that could increase it begins a new epoch, in which all nodes
// choose again.
void attach(const Tree& t, Index i, Index beat, const Received& received) {
    const Index me = t.id[i];
    double newest = 0.0;
    bool missing = false, ahead = false;
    t.allowance[i] = smaller(t.allowance[i] + 1.0 / EPOCH_BEATS, EPOCHS_AT_ONCE + 2.0 * t.nodes[i]);
    for (Index s = 0; s < received.size(); ++s) {
        const double* header = received[s];
        if (header[EPOCH] > 0.0) {
            // a node that leaves ends its epoch
            const double epoch = smaller(header[EPOCH] + (header[AWAY] > 0.0 ? 1.0 : 0.0), LAST_EPOCH);
            if (is_credible(t, i, epoch, received))
                newest = larger(newest, epoch);
            else
                ahead = true;
        } else if (header[ROOT] == 0.0) {
            missing = true;
        }
    }
    if (t.epoch[i] < 1.0 && newest >= 1.0) {
        // new, or without memory: before its crash the node may have had children in any earlier epoch
        become_root(t, i, epoch_after(newest, me, beat));
    } else if (t.epoch[i] == 0.0) {
        const Index waited = t.age[i] + 1;
        become_root(t, i, 0.0);
        if (newest == 0.0 && (ahead || missing) && waited <= t.patience[i]) {
            t.age[i] = waited;
            return;
        }
        // its neighbours have no memory either, it seems
        t.epoch[i] = epoch_after(newest, me, beat);
    } else if ((newest > t.epoch[i] || ahead) && may_begin(t, i)) {
        // towards a neighbour that is far ahead it goes in steps, the same as others who see it
        const double step = smaller(__builtin_floor(t.epoch[i]) + STRIDE, LAST_EPOCH);
        become_root(t, i, newest > t.epoch[i] ? newest : step);
    }
    t.age[i] += 1;
    for (Index s = 0; s < received.size(); ++s) {
        const double* header = received[s];
        if (header[EPOCH] != t.epoch[i] || header[AWAY] > 0.0 || header[PARENT] == static_cast<double>(me)) continue;
        const bool closer = header[ROOT] < t.root[i] ||
                            (header[ROOT] == t.root[i] && header[DISTANCE] + 1.0 < t.distance[i]);
        if (closer && header[DISTANCE] + 1.0 < t.nodes[i]) {
            if (header[ROOT] != t.root[i]) {
                forget_root(t, i);
                t.age[i] = 0;
            }
            t.root[i] = header[ROOT], t.distance[i] = header[DISTANCE] + 1.0;
            t.parent[i] = static_cast<Index>(header[SENDER]);
        }
    }
    if (t.parent[i] == me) return;
    double beat_received = -1.0;
    for (Index s = 0; s < received.size(); ++s) {
        const double* header = received[s];
        if (header[EPOCH] > 0.0 && header[SENDER] == static_cast<double>(t.parent[i])) beat_received = header[BEAT];
    }
    if (beat_received == t.parent_beat[i])
        t.quiet[i] += 1;
    else
        t.parent_beat[i] = beat_received, t.quiet[i] = 0;
    if (t.quiet[i] > t.patience[i] && t.done[i] == 0.0 && may_begin(t, i)) {
        // the path to the root is broken: find another, and wait longer from now on; once the network has converged,
        // silent neighbours may simply have stopped
        t.patience[i] *= 2;
        become_root(t, i, epoch_after(t.epoch[i], me, beat));
    }
}

// Adds the integers in the bits of `added` to those of `sums`, modulo 2^64.
void add_words(Vector<double> sums, const double* added) {
    for (Index k = 0; k < sums.size; ++k) {
        std::uint64_t sum, term;
        std::memcpy(&sum, sums.data + k, sizeof sum);
        std::memcpy(&term, added + k, sizeof term);
        sum += term;
        std::memcpy(sums.data + k, &sum, sizeof sum);
    }
}

// Adds up what the children of the node in row i report: `sums` (up,) and the fields of `header` over the subtree.
// Returns the message with the newest target, or nullptr if none is newer than the node's own.
//
// A child that refers to a target much older than the node's own is late, and left out: it may have crashed. If late
// children still make progress, they are only slow, and the node raises its `lag`.
//
// In rounds no child is left out: a child is late as long as its report does not refer to the node's own target, and
// `waited` counts the activations in which no late child has shown that it is alive. The news that the network works in
// rounds goes up the tree too.
//
// A target is taken from the parent only, whoever else sends a false one is not believed; nodes that trust one another
// take it from any neighbour in the tree, which may have it sooner.
//
// Sums of `words` are integers modulo 2^64, in the bits of doubles.
const double* gather(const Tree& t, Index i, const Received& received, double* header, Vector<double> sums,
                     bool words) {
    const Index me = t.id[i];
    const double hash = node_hash(me), parent = static_cast<double>(t.parent[i]);
    const bool in_rounds = t.rounds[i] > 0.0, from_all = t.trusting[i] > 0.0 && !in_rounds;
    header[WEIGHT] = 0.0, header[ERROR] = 0.0, header[OLDEST] = FAR, header[COVERED] = 1.0;
    header[CHECK] = 0.0, header[CHILDREN] = 0.0;
    for (Index k = 0; k < sums.size; ++k) sums[k] = 0.0;
    double freshest = t.stamp[i], late_stamps = 0.0;
    const double* source = nullptr;
    Index late = 0;
    for (Index s = 0; s < received.size(); ++s) {
        const double* message = received[s];
        if (message[AWAY] > 0.0) continue;
        const bool present = message[EPOCH] > 0.0, child = message[PARENT] == static_cast<double>(me);
        header[CHECK] += present ? hash - node_hash(static_cast<Index>(message[SENDER])) : MISSING_CHECK;
        bool here = present && message[EPOCH] == t.epoch[i] && message[ROOT] == t.root[i];
        if (here && message[STAMP] > freshest && (from_all || message[SENDER] == parent))
            freshest = message[STAMP], source = message;
        if (here && child && in_rounds && message[OLDEST] < t.stamp[i]) {
            late += 1;
            late_stamps += message[BEAT];
        }
        if (here && child && !in_rounds && t.stamp[i] - message[STAMP] > t.lag[i]) {
            if (message[STAMP] >= 0.0) {
                late += 1;
                late_stamps += message[STAMP];
            }
            here = false;
        }
        if (!here) {
            // wait for it, up to the patience
            if (t.age[i] <= t.patience[i]) header[COVERED] = 0.0;
            continue;
        }
        if (!child) continue;
        t.rounds[i] = larger(t.rounds[i], message[ROUNDS]);
        header[CHILDREN] += 1.0;
        header[WEIGHT] += message[WEIGHT];
        header[ERROR] = larger(header[ERROR], message[ERROR]);
        header[OLDEST] = smaller(header[OLDEST], message[OLDEST]);
        header[COVERED] = smaller(header[COVERED], message[COVERED]);
        header[CHECK] += message[CHECK];
        if (words)
            add_words(sums, message + HEADER);
        else
            for_lanes<double>(sums.size, [&](auto l) {
                store(sums.data, l, load<double>(sums.data, l) + load<double>(message + HEADER, l));
            });
    }
    if (in_rounds)
        t.waited[i] = late > 0 && late == t.late[i] && late_stamps == t.late_stamps[i] ? t.waited[i] + 1 : 0;
    else if (late < t.late[i] || (late == t.late[i] && late_stamps > t.late_stamps[i]))
        t.lag[i] = smaller(2.0 * t.lag[i], FAR);
    t.late[i] = late, t.late_stamps[i] = late_stamps;
    return source;
}

// `attach` and `gather` for the node in row i; the newest target goes into `target` (down,).
void update_node(const Tree& t, Index i, Index beat, const Received& received, Vector<double> target, double* header,
                 Vector<double> sums, bool words) {
    attach(t, i, beat, received);
    const double* source = gather(t, i, received, header, sums, words);
    if (t.waited[i] > t.patience[i] && t.done[i] == 0.0 && may_begin(t, i)) {
        // the round cannot be completed: give it up, and wait longer from now on
        t.patience[i] *= 2;
        become_root(t, i, epoch_after(t.epoch[i], t.id[i], beat));
        gather(t, i, received, header, sums, words);
        return;
    }
    if (!source || t.parent[i] == t.id[i]) return;
    if (source[DONE] > 0.0 && source[DONE] - 1.0 <= t.changed[i]) {
        // the decision to stop was made before this node's measure changed
        if (!may_begin(t, i)) return;
        become_root(t, i, epoch_after(t.epoch[i], t.id[i], beat));
        gather(t, i, received, header, sums, words);
        return;
    }
    t.stamp[i] = source[STAMP], t.whole[i] = source[WHOLE], t.done[i] = source[DONE];
    t.residual[i] = source[RESIDUAL], t.rounds[i] = larger(t.rounds[i], source[ROUNDS]);
    std::memcpy(target.data, source + HEADER + sums.size, target.size * sizeof(double));
}

}  // namespace

// Makes the node in row i the root of its own tree, in this epoch.
void become_root(const Tree& t, Index i, double epoch) {
    t.epoch[i] = epoch, t.root[i] = t.key[i], t.distance[i] = 0.0, t.parent[i] = t.id[i];
    t.age[i] = 0, t.quiet[i] = 0;
    forget_root(t, i);
}

// A batch of nodes, in the rows `nodes` (b,) of the tree, acts after `beats` (b,) activations each: every node chooses
// its parent and adds up what its children report, into `headers` (b, HEADER) and `sums` (b, up). The newest target
// goes into `targets` (k, down). Node k of the batch has received the rows slots[first[k]:last[k]] of `rows`. `words`:
// see `gather`.
void update_tree(const Tree& tree, Vector<const Index> nodes, Vector<const Index> beats, Vector<const Index> first,
                 Vector<const Index> last, Vector<const std::int32_t> slots, Matrix<const double> rows,
                 Matrix<double> targets, Matrix<double> headers, Matrix<double> sums, bool words) {
    const auto work = [&](Index begin, Index end) {
        for (Index k = begin; k < end; ++k) {
            const Index i = nodes[k];
            if (tree.away[i] > 0.0) {
                // its messages keep announcing that it has left, in its last epoch
                std::memset(headers.row(k), 0, headers.columns * sizeof(double));
                std::memset(sums.row(k), 0, sums.columns * sizeof(double));
            } else {
                update_node(tree, i, beats[k], {rows, slots.slice(first[k], last[k])}, targets[i], headers.row(k),
                            sums[k], words);
            }
        }
    };
    Index messages = 0;
    for (Index k = 0; k < nodes.size; ++k) messages += last[k] - first[k];
    // a few reads for each header, and about one child and one target for each node
    const double each = 20.0 * static_cast<double>(messages) / static_cast<double>(larger<Index>(nodes.size, 1));
    parallel(nodes.size, each + 0.3 * static_cast<double>(sums.columns + targets.columns), work);
}

// Completes the messages (b, HEADER + up + down) after their headers: row r reports the children's `sums` (b, up) plus
// counted[r] times the node's own contribution, whose `parts` (b, size) stand side by side, and passes on its target,
// row nodes[r] of `targets` (k, down).
void write_sums_and_targets(Vector<const Index> nodes, Vector<const double> counted, Matrix<const double> sums,
                            List<Matrix<const double>> parts, Matrix<const double> targets, Matrix<double> messages) {
    const auto work = [&](Index begin, Index end) {
        for (Index row = begin; row < end; ++row) {
            const double* below = sums.row(row);
            double* body = messages.row(row) + HEADER;
            for (int p = 0; p < parts.size; ++p) {
                const double* own = parts[p].row(row);
                for_lanes<double>(parts[p].columns, [&](auto l) {
                    store(body, l, load<double>(below, l) + counted[row] * load<double>(own, l));
                });
                below += parts[p].columns;
                body += parts[p].columns;
            }
            std::memcpy(body, targets.row(nodes[row]), targets.columns * sizeof(double));
        }
    };
    parallel(nodes.size, 0.5 * static_cast<double>(messages.columns), work);
}

}  // namespace barymesh::INSTRUCTION_SET
