"""Local training: every client alone, nothing is shared."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.federation.method import Method


class Local(Method):
    """Each client trains its own model on its own data for as many rounds as the others."""

    name = "local"
    cite = "the control without federation (Atlas' encoder and decoder without codebook)"
    takes_model = True

    @dataclass(frozen=True)
    class Params:
        lr: float = 1e-3  # Atlas, Sec. 5.1
