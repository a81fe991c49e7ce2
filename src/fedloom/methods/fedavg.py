"""FedAvg: every client trains the whole model, the server averages it (McMahan et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.federation.method import Method


class FedAvg(Method):
    """Federated averaging of all parameters of the client model; Adam locally, moments fresh every round.

    A client's Adam moments belong to weights that the server has just replaced, so they start anew (Atlas keeps the
    question open).
    """

    name = "fedavg"
    cite = "McMahan et al. 2017, Communication-Efficient Learning of Deep Networks from Decentralized Data, Alg. 1"
    takes_model = True
    shared = ("",)

    @dataclass(frozen=True)
    class Params:
        lr: float = 1e-3  # Atlas, Sec. 5.1
