"""What every encoder does last: float32 unit rows, or an error that names the culprit."""

from __future__ import annotations

import numpy as np

from bias_core.errors import InvalidInput


def to_unit_rows(features: np.ndarray, kind: str, encoder: str) -> np.ndarray:
    """Features ``(n, d)`` as float32 rows of unit length.

    Raises
    ------
    InvalidInput
        A row is NaN, infinite or zero; the message says which input it was.

    Examples
    --------
    >>> to_unit_rows(np.array([[3.0, 4.0]]), "image", "demo")
    array([[0.6, 0.8]], dtype=float32)
    """
    rows = np.asarray(features, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    bad = ~(np.isfinite(lengths[:, 0]) & (lengths[:, 0] > 0))
    if bad.any():
        number = int(np.argmax(bad)) + 1
        raise InvalidInput(f"{encoder} gave a NaN or zero embedding for {kind} {number} of {len(rows)}")
    unit: np.ndarray = rows / lengths
    return unit
