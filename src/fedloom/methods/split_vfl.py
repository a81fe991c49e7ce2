"""SplitVFL: ST-SplitVFL without its spatial graph (ST-SplitVFL, Sec. 4.3)."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.methods.st_split_vfl import Graph, StSplitVfl


class SplitVfl(StSplitVfl):
    """Every client hears 39 others, drawn once by name, or all of a smaller federation."""

    name = "split_vfl"
    cite = "ST-SplitVFL: Spatio-Temporal Split Vertical Federated Learning, Sec. 4.3"

    @dataclass(frozen=True)
    class Params(StSplitVfl.Params):
        graph: Graph = "random"  # 39 partners where a GPU holds no more, else all to all, Sec. 4.3
