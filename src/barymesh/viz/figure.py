"""The figures that the library returns."""

from __future__ import annotations

import io

from barymesh.extras import needs

with needs("plots"):
    from matplotlib import figure


class Figure(figure.Figure):
    """A figure of matplotlib that displays itself in a notebook, even if pyplot was never imported."""

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        self.savefig(picture, format="png", dpi=80)
        return picture.getvalue()
