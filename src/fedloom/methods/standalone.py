"""Standalone: every client alone, under the name that FeDaL uses for local training."""

from __future__ import annotations

from fedloom.methods.local import Local


class Standalone(Local):
    """Each client trains its own model for as many local steps as it would take in the federation."""

    name = "standalone"
    cite = "FeDaL, Table 1 (Standalone)"
    family = "series"
