"""A full graph network block and stacks of it (Battaglia et al. 2018, Alg. 1, as CNFGNN uses it, Sec. 3.2).

Edges, nodes and the graph as a whole hold vectors; a block renews all three from each other. Nodes come first and the
batch second: x [N, B, F] for nodes, [E, B, F] for edges, [B, F] for the graph.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Held(NamedTuple):
    """What nodes, edges and the graph hold: [N, B, F], [E, B, F] and [B, F], each of its own F."""

    nodes: Tensor
    edges: Tensor
    graph: Tensor


def _mlp(inputs: int, width: int, outputs: int) -> nn.Sequential:
    """Two hidden layers, and nothing after the last map."""
    hidden = (nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
    return nn.Sequential(*hidden, nn.Linear(width, outputs))


class Block(nn.Module):
    """Renews edges from their ends, nodes from arriving edges, the graph from sums; the old stays beside the new."""

    def __init__(self, nodes: int, edges: int, graph: int, width: int, message: int) -> None:
        super().__init__()
        self.edge = _mlp(2 * nodes + edges + graph, width, message)
        self.node = _mlp(nodes + message + graph, width, message)
        self.graph = _mlp(2 * message + graph, width, message)

    def forward(self, old: Held, src: Tensor, dst: Tensor) -> Held:
        graph_EBF, graph_NBF = (old.graph.expand(len(part), *old.graph.shape) for part in (old.edges, old.nodes))
        edges = self.edge(torch.cat([old.nodes[src], old.nodes[dst], old.edges, graph_EBF], -1))
        arrived = edges.new_zeros((*old.nodes.shape[:-1], edges.shape[-1])).index_add(0, dst, edges)
        nodes = self.node(torch.cat([old.nodes, arrived, graph_NBF], -1))
        graph = self.graph(torch.cat([nodes.sum(0), edges.sum(0), old.graph], -1))
        return Held(*(torch.cat(pair, -1) for pair in zip((nodes, edges, graph), old, strict=True)))


class GraphNetwork(nn.Module):
    """Blocks one after the other, then an affine map of what each node holds: codes [N, B, D] to [N, B, D].

    Edges start from their weight, the graph from zeros of a node's size.
    """

    def __init__(self, code: int, width: int, message: int, blocks: int) -> None:
        super().__init__()
        grown = (block * message for block in range(blocks))
        self.blocks = nn.ModuleList(Block(code + g, 1 + g, code + g, width, message) for g in grown)
        self.output = nn.Linear(code + blocks * message, code)

    def forward(self, code_NBD: Tensor, weight_E: Tensor, src: Tensor, dst: Tensor) -> Tensor:
        batch = code_NBD.shape[1]
        weight_EB1 = weight_E[:, None, None].expand(-1, batch, 1)
        held = Held(code_NBD, weight_EB1, torch.zeros_like(code_NBD[0]))
        for block in self.blocks:
            held = block(held, src, dst)
        codes: Tensor = self.output(held.nodes)
        return codes
