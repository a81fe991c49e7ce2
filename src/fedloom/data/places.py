"""How far places on the earth are apart. numpy alone, since training builds graphs from places too."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

EARTH_KM = 6371.0088  # mean radius (IUGG)


def kilometres(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Great-circle distances [C, C] between ``places`` [C, 2] (latitude, longitude in degrees); NaN where unknown."""
    latitude, longitude = np.radians(places).T
    rise = np.sin((latitude[:, None] - latitude) / 2) ** 2
    turn = np.sin((longitude[:, None] - longitude) / 2) ** 2
    chord = rise + np.cos(latitude)[:, None] * np.cos(latitude) * turn
    return 2 * EARTH_KM * np.arcsin(np.sqrt(np.minimum(chord, 1.0)))
