"""Borders of H3's cells, for maps."""

from __future__ import annotations

import h3.api.basic_str as h3
import numpy as np
from numpy.typing import NDArray


def borders(names: list[str]) -> list[NDArray[np.float64]] | None:
    """Return the closed outline of every cell as (lon, lat) [n, 2]; None where a name is not that of a cell."""
    if not all(h3.is_valid_cell(name) for name in names):
        return None
    return [np.array([*corners, corners[0]])[:, ::-1] for corners in map(h3.cell_to_boundary, names)]
