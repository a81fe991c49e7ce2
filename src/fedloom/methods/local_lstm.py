"""Local LSTM: every client trains its own forecaster on its own data (ST-SplitVFL, Sec. 4.3)."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.methods.local import Local


class LocalLstm(Local):
    """Local training under the name that the paper gives it; its client model is the bidirectional LSTM."""

    name = "local_lstm"
    cite = "ST-SplitVFL: Spatio-Temporal Split Vertical Federated Learning, Sec. 4.3"

    @dataclass(frozen=True)
    class Params(Local.Params):
        lr: float = 1e-2  # Adam, Sec. 4.2
