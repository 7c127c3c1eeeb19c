"""Sums in SIMD registers, in a fixed order.

LLVM vectorises a plain sum only if it may reorder it, and then the order, and so the last bits, depend on the passes of
the optimiser: the same kernel could differ between the process that compiled it and one that loaded it from the cache.
Here the order is fixed: term k goes to running sum ``k mod LANES``, and neighbouring running sums are added in pairs.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from barymesh.core.vector_math import emit_fma

# running sums: four registers of AVX2, enough to hide the latency of an addition
LANES = 16


def _reduction(count, term):
    """An intrinsic that sums ``term(builder, suffix, total, values)`` over ``count`` contiguous vectors of equal size.

    It processes vectors of LANES numbers first, and then the rest, one number at a time.
    """

    def typer(typing_context, *arrays):
        def build(context, builder, signature, args):
            structs = [
                context.make_array(kind)(context, builder, value)
                for kind, value in zip(signature.args, args, strict=True)
            ]
            size = cgutils.unpack_tuple(builder, structs[0].shape)[0]
            bits = signature.return_type.bitwidth
            real = context.get_value_type(signature.return_type)
            vector = ir.VectorType(real, LANES)

            def load(array, place, lanes=None):
                """One number, or ``lanes`` neighbours, in the type of the sum."""
                pointer = builder.gep(array.data, [place])
                kind = pointer.type.pointee
                if lanes is not None:
                    kind = ir.VectorType(kind, lanes)
                    pointer = builder.bitcast(pointer, kind.as_pointer())
                value = builder.load(pointer, align=4)
                wanted = real if lanes is None else vector
                return value if kind == wanted else builder.fpext(value, wanted)

            whole = builder.udiv(size, size.type(LANES))
            lanes = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * LANES))
            with cgutils.for_range(builder, whole) as loop:
                place = builder.mul(loop.index, size.type(LANES))
                values = [load(a, place, LANES) for a in structs]
                builder.store(term(builder, f"v{LANES}f{bits}", builder.load(lanes), values), lanes)
            parts = cgutils.alloca_once(builder, real, size=LANES)
            builder.store(builder.load(lanes), builder.bitcast(parts, vector.as_pointer()), align=4)
            done = builder.mul(whole, size.type(LANES))
            with cgutils.for_range(builder, builder.sub(size, done)) as loop:
                part = builder.gep(parts, [loop.index])
                values = [load(a, builder.add(done, loop.index)) for a in structs]
                builder.store(term(builder, f"f{bits}", builder.load(part), values), part)
            left = [builder.load(builder.gep(parts, [size.type(k)])) for k in range(LANES)]
            while len(left) > 1:
                left = [builder.fadd(left[k], left[k + 1]) for k in range(0, len(left), 2)]
            return left[0]

        return arrays[0].dtype(*arrays), build

    # intrinsics need a fixed number of arguments
    if count == 1:
        return intrinsic(lambda typing_context, a: typer(typing_context, a))
    return intrinsic(lambda typing_context, a, b: typer(typing_context, a, b))


def _plain(builder, suffix, total, values):
    return builder.fadd(total, values[0])


def _product(builder, suffix, total, values):
    return emit_fma(builder, suffix, values[0], values[1], total)


def _squared_difference(builder, suffix, total, values):
    gap = builder.fsub(values[0], values[1])
    return emit_fma(builder, suffix, gap, gap, total)


# each takes contiguous vectors of equal size, and sums in the float type of the first, which must be the widest
sum_of: Any = _reduction(1, _plain)
dot: Any = _reduction(2, _product)
squared_distance: Any = _reduction(2, _squared_difference)
