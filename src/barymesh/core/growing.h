// The lattice on which draws are merged; see growing.cpp.
#pragma once

namespace barymesh {

// units in a cell of level 0, and cells along an axis, as powers of two: three axes fill the 63 bits of a key
constexpr int CELL_BITS = 16, AXIS_BITS = 21, MOST_AXES = 3;

}  // namespace barymesh
