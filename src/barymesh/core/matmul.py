"""Matrix products for use inside compiled kernels.

The separable oracle multiplies thousands of small matrices (28 x 28, say), one set per node, with other work between
them. A BLAS call for each would cost more than the product, and plain numba loops reach a third of the machine's rate,
because LLVM checks again for aliasing at every short inner loop. So the inner tile is written as LLVM vector
instructions: six rows times ``LANES`` columns stay in registers over the whole sum (12 of the 16 registers of AVX2;
smaller tiles compute the rest). LLVM splits the vectors to the width of the processor.

A sum adds its terms in their order for every size of the tile: a row is the same to the last bit, whichever rows it is
multiplied together with.
"""

from __future__ import annotations

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from barymesh.core.vector_math import emit_fma

LANES = 8
HALF = 4


@numba.njit(cache=True)
def padded(columns: int) -> int:
    """The number of columns rounded up to a multiple of LANES."""
    return -(-columns // LANES) * LANES


def _tile(rows, lanes, onto=False):
    """An intrinsic: ``c[i:i+rows, j:j+lanes] = sum_k a[i:i+rows, k] * b[first + k step : first + k step + lanes]`` over
    k in ``start:stop``, with ``b`` taken as one long row; ``onto``: added to c."""

    def typer(typing_context, a, b, c, i, j, start, stop, first, step):
        def build(context, builder, signature, args):
            structs = [
                context.make_array(kind)(context, builder, value)
                for kind, value in zip(signature.args[:3], args[:3], strict=True)
            ]
            widths = [cgutils.unpack_tuple(builder, structs[k].shape)[-1] for k in range(3)]
            real = context.get_value_type(signature.args[0].dtype)
            size = 8 if signature.args[0].dtype == types.float64 else 4
            vector = ir.VectorType(real, lanes)
            lane = ir.IntType(32)
            suffix = f"v{lanes}f{8 * size}"

            def splat(scalar):
                first = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, lane(0))
                zeros = ir.Constant(ir.VectorType(lane, lanes), [0] * lanes)
                return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)

            row, column, begin, end, first, step = args[3:]
            starts = [
                builder.gep(structs[0].data, [builder.mul(builder.add(row, row.type(r)), widths[0])])
                for r in range(rows)
            ]
            panel = builder.gep(structs[1].data, [first])
            targets = [
                builder.bitcast(
                    builder.gep(
                        structs[2].data,
                        [builder.add(builder.mul(builder.add(row, row.type(r)), widths[2]), column)],
                    ),
                    vector.as_pointer(),
                )
                for r in range(rows)
            ]
            totals = [cgutils.alloca_once(builder, vector) for _ in range(rows)]
            for target, total in zip(targets, totals, strict=True):
                held = builder.load(target, align=size) if onto else ir.Constant(vector, [0.0] * lanes)
                builder.store(held, total)
            with cgutils.for_range(builder, end, start=begin) as loop:
                source = builder.gep(panel, [builder.mul(loop.index, step)])
                values = builder.load(builder.bitcast(source, vector.as_pointer()), align=size)
                for start, total in zip(starts, totals, strict=True):
                    factor = splat(builder.load(builder.gep(start, [loop.index])))
                    builder.store(emit_fma(builder, suffix, factor, values, builder.load(total)), total)
            for target, total in zip(targets, totals, strict=True):
                builder.store(builder.load(total), target, align=size)
            return context.get_dummy_value()

        return types.void(a, b, c, *[types.intp] * 6), build

    return intrinsic(typer)


_six_rows, _four_rows, _one_row = _tile(6, LANES), _tile(4, LANES), _tile(1, LANES)
_twelve_half_rows, _six_half_rows, _one_half_row = _tile(12, HALF), _tile(6, HALF), _tile(1, HALF)
_onto_six_rows, _onto_four_rows, _onto_one_row = _tile(6, LANES, True), _tile(4, LANES, True), _tile(1, LANES, True)


@numba.njit(cache=True)
def matmul(a, b, c, rows, columns, inner):
    """``c[rows, columns] = a[rows, inner] @ b[inner, columns]`` for C-contiguous arrays.

    ``rows``, ``columns``, ``inner`` are pairs (start, stop). ``b`` and ``c`` have a multiple of LANES columns; a few
    columns beside ``columns`` may be written too.
    """
    start, stop = inner
    width = b.shape[1]
    j = min(columns[0], b.shape[1] - -(-(columns[1] - columns[0]) // HALF) * HALF)
    while columns[1] - j > HALF:
        i = rows[0]
        while rows[1] - i >= 6:
            _six_rows(a, b, c, i, j, start, stop, j, width)
            i += 6
        while rows[1] - i >= 4:
            _four_rows(a, b, c, i, j, start, stop, j, width)
            i += 4
        while i < rows[1]:
            _one_row(a, b, c, i, j, start, stop, j, width)
            i += 1
        j += LANES
    if j < columns[1]:
        i = rows[0]
        while rows[1] - i >= 12:
            _twelve_half_rows(a, b, c, i, j, start, stop, j, width)
            i += 12
        while rows[1] - i >= 6:
            _six_half_rows(a, b, c, i, j, start, stop, j, width)
            i += 6
        while i < rows[1]:
            _one_half_row(a, b, c, i, j, start, stop, j, width)
            i += 1


@numba.njit(cache=True)
def add_strip(a, b, c, j, inner, first, step):
    """``c[:, j : j + LANES] += sum_k a[:, k] * b[first + k step : first + k step + LANES]`` over k in ``inner``.

    So the rows of the right-hand matrix may be anywhere in ``b (size,)``, and overlap, as those of a Toeplitz matrix
    do.
    """
    start, stop = inner
    i = 0
    while a.shape[0] - i >= 6:
        _onto_six_rows(a, b, c, i, j, start, stop, first, step)
        i += 6
    while a.shape[0] - i >= 4:
        _onto_four_rows(a, b, c, i, j, start, stop, first, step)
        i += 4
    while i < a.shape[0]:
        _onto_one_row(a, b, c, i, j, start, stop, first, step)
        i += 1
