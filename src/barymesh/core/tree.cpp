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
// a node that joins counts once its error is below this
constexpr double ARRIVED = 0.2;

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

// Whether the node in row i moves towards its target: also if it is told to stop too early.
bool moves(const Tree& t, Index i) {
    return (t.done[i] == 0.0 || t.agreed[i] == 0.0) && t.stamp[i] >= 0.0 && t.away[i] == 0.0;
}

// The children report more weight than all nodes of the network have. While a branch moves from one parent to another,
// that passes; otherwise one of them lies, and no sum is right.
void leave_out_children(double* header, Vector<double> sums) {
    std::memset(header, 0, HEADER * sizeof(double));
    header[OLDEST] = -1.0, header[CHECK] = MISSING_CHECK;
    std::memset(sums.data, 0, sums.size * sizeof(double));
}

// What is found of the node in row i, number k of its batch: IN_ROUNDS; KNOWN, it has a target; MOVING, it moves towards
// it, outside of rounds; FRESH, it has a new one to act on, in rounds. Its contribution refers to its target from now on.
void note_target(const Tree& t, Index i, Index beat, Matrix<bool> findings, Index k) {
    const bool in_rounds = t.rounds[i] > 0.0, known = t.stamp[i] >= 0.0, new_epoch = t.solved_epoch[i] != t.epoch[i];
    const bool fresh = in_rounds && known && (new_epoch || t.solved[i] != t.stamp[i]);
    findings(IN_ROUNDS, k) = in_rounds, findings(KNOWN, k) = known;
    findings(MOVING, k) = !in_rounds && moves(t, i), findings(FRESH, k) = fresh;
    t.solved[i] = t.stamp[i], t.solved_epoch[i] = t.epoch[i];
    // the first target of an epoch begins its first round
    if (new_epoch)
        t.pace[i] = __builtin_inf();
    else if (fresh)
        t.pace[i] = smaller(t.pace[i], static_cast<double>(beat) - t.begun[i]);
    if (fresh) t.begun[i] = static_cast<double>(beat);
}

}  // namespace

// Makes the node in row i the root of its own tree, in this epoch.
void become_root(const Tree& t, Index i, double epoch) {
    t.epoch[i] = epoch, t.root[i] = t.key[i], t.distance[i] = 0.0, t.parent[i] = t.id[i];
    t.age[i] = 0, t.quiet[i] = 0;
    forget_root(t, i);
}

// A batch of nodes, in the rows `nodes` (b,) of the tree, acts after `beats` (b,) activations each: every node chooses
// its parent and adds up what its children report, into the header of its message, a row of `messages` (b, width), and
// into `sums` (b, up). The newest target goes into `targets` (k, down). Node k of the batch has received the rows
// slots[first[k]:last[k]] of `rows`. All nodes together weigh `total` at most. `words`: see `gather`. What else is found
// goes into `findings` (FINDINGS, b), see `note_target`.
void update_tree(const Tree& tree, Vector<const Index> nodes, Vector<const Index> beats, Vector<const Index> first,
                 Vector<const Index> last, Vector<const std::int32_t> slots, Matrix<const double> rows,
                 Matrix<double> targets, double total, Matrix<double> messages, Matrix<double> sums, bool words,
                 Matrix<bool> findings) {
    const auto work = [&](Index begin, Index end) {
        for (Index k = begin; k < end; ++k) {
            const Index i = nodes[k];
            double* header = messages.row(k);
            if (tree.away[i] > 0.0) {
                // its messages keep announcing that it has left, in its last epoch
                std::memset(header, 0, HEADER * sizeof(double));
                std::memset(sums.row(k), 0, sums.columns * sizeof(double));
            } else {
                update_node(tree, i, beats[k], {rows, slots.slice(first[k], last[k])}, targets[i], header, sums[k],
                            words);
            }
            findings(EXCESSIVE, k) = header[WEIGHT] + tree.weight[i] > total;
            if (findings(EXCESSIVE, k)) leave_out_children(header, sums[k]);
            note_target(tree, i, beats[k], findings, k);
        }
    };
    Index received = 0;
    for (Index k = 0; k < nodes.size; ++k) received += last[k] - first[k];
    // a few reads for each header, and about one child and one target for each node
    const double each = 20.0 * static_cast<double>(received) / static_cast<double>(larger<Index>(nodes.size, 1));
    parallel(nodes.size, each + 0.3 * static_cast<double>(sums.columns + targets.columns), work);
}

// Completes the messages (b, HEADER + up + down) of the nodes (b,), after `update_tree` has begun them and the nodes have
// made their contributions, whose `parts` (b, size) stand side by side, with `errors` (b,): a message reports the
// children's `sums` (b, up) plus the node's weight times its contribution, within the bounds `lower` and `upper` (up,)
// for each unit of weight, and passes on its target, a row of `targets` (k, down). CHECK is at most `largest_check` in
// size. Also notes which nodes agree that they are within the tolerance `tol`. With `words`, sums and errors are masked,
// and not written here.
void write_messages(const Tree& t, Vector<const Index> nodes, Vector<const Index> beats, Vector<const double> errors,
                    double tol, List<Matrix<const double>> parts, Matrix<const double> sums, Vector<const double> lower,
                    Vector<const double> upper, Matrix<const double> targets, double largest_check, bool words,
                    Matrix<double> messages, Matrix<bool> findings) {
    const auto work = [&](Index begin, Index end) {
        for (Index k = begin; k < end; ++k) {
            const Index i = nodes[k];
            double *header = messages.row(k), *body = header + HEADER;
            const bool alone = t.parent[i] == t.id[i] && header[WEIGHT] == 0.0;
            findings(AT_ROOT, k) = t.parent[i] == t.id[i] && !findings(EXCESSIVE, k);
            t.agreed[i] = errors[k] <= tol ? 1.0 : 0.0;
            if (errors[k] <= ARRIVED) t.newcomer[i] = 0.0;
            // with masks nobody could know who counts; rounds may begin from any potentials
            const double counted = t.newcomer[i] > 0.0 && !alone && !words ? 0.0 : t.weight[i];
            header[SENDER] = static_cast<double>(t.id[i]), header[EPOCH] = t.epoch[i], header[AWAY] = t.away[i];
            header[ROOT] = t.root[i], header[DISTANCE] = t.distance[i];
            header[PARENT] = static_cast<double>(t.parent[i]), header[BEAT] = static_cast<double>(beats[k]);
            header[STAMP] = t.stamp[i], header[WHOLE] = t.whole[i], header[RESIDUAL] = t.residual[i];
            header[DONE] = t.done[i], header[ROUNDS] = t.rounds[i];
            header[WEIGHT] += counted;
            header[OLDEST] = smaller(header[OLDEST], t.stamp[i]);
            header[CHECK] = clipped(header[CHECK], largest_check);
            std::memcpy(body + sums.columns, targets.row(i), targets.columns * sizeof(double));
            if (words) continue;
            header[ERROR] = larger(header[ERROR], errors[k]);
            const double weight = header[WEIGHT], *below = sums.row(k);
            Index at = 0;
            for (int p = 0; p < parts.size; at += parts[p++].columns) {
                const double* own = parts[p].row(k);
                for_lanes<double>(parts[p].columns, [&](auto l) {
                    const decltype(l) all{at + l.at};
                    const auto sum = load<double>(below, all) + counted * load<double>(own, l);
                    // a sum that is not a number stays that
                    const auto least = weight * load<double>(lower.data, all), most = weight * load<double>(upper.data, all);
                    store(body, all, select(sum < least, least, select(sum > most, most, sum)));
                });
            }
        }
    };
    parallel(nodes.size, 0.5 * static_cast<double>(messages.columns), work);
}

// After the roots among the nodes (b,) have made their targets: notes which nodes have had a whole one, and finds those
// that move towards theirs.
void settle_nodes(const Tree& t, Vector<const Index> nodes, Matrix<bool> findings) {
    for (Index k = 0; k < nodes.size; ++k) {
        const Index i = nodes[k];
        t.settled[i] = larger(t.settled[i], t.whole[i]);
        // a root that has just turned to rounds has a target for that
        findings(MOVING, k) = !findings(IN_ROUNDS, k) && t.rounds[i] == 0.0 && moves(t, i);
    }
}

}  // namespace barymesh::INSTRUCTION_SET
