"""Sums that nobody can read: contributions in fixed point, with masks that cancel in the sum over all members.

A node's numbers become integers modulo 2^64 (``FixedPoint``), to which it adds, for each of its *partners*, a mask that
only the two of them can compute: the one with the smaller number adds it, the other subtracts it. What a node sends is
uniformly random to everybody who does not know all of its masks. In the sum over all members the masks cancel to the
last bit; in a sum over some of them, those towards the others are left, and it is as random.

**Keys.** Two partners share a key by X25519. From it HKDF makes a key for one *round*, and ChaCha20 the masks, one
stream for each field. A round is described by all that both must agree on: the run, the method, the epoch, the root,
the stamp and the target, and the *roll* of the members. Nodes that were sent other targets, or other rolls, mask
for different rounds, and the sum of what they send cannot be read.

**The roll** is the list of the members, with a fresh number of each: 0 stands for a node that is no member. A node that
begins anew, even one that has lost its memory, draws another number, so it never uses a mask twice.

**Partners** are neighbours on a ring in an order that the roll determines, ``partner_count`` of them. In a small
network all members are partners.
"""
