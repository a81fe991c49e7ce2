"""Core-sets: a few windows whose gradient is that of a client's data, and the noise that blurs them.

FeDaL, Sec. on GBE: before upload the amplitudes of a core-set's Fourier transform are noised and its phases kept. The
noise is obfuscation: it gives no guarantee of privacy.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedloom.federation.masking import hide, visible_scale
from fedloom.federation.method import Clients, Moment, Noise, Outcome, Phase, Step, Uploads
from fedloom.federation.randomness import uniform
from fedloom.federation.stack import Bound, Tensors
from fedloom.federation.tasks.series import SeriesTask, SeriesWindows
from fedloom.federation.tuning import union
from fedloom.models.layers.gradient_matching import learned, own_rows

LARGEST = 5.0  # in deviations of a row
DRAW_AT_ONCE = 16  # rows that one minibatch gives
REAL_BATCHES = 6  # minibatches that a core-set is matched to, one after the other


class CoreSet(nn.Module):
    """K windows [K, L] of a client as buffers: ``initial``, ``learned`` and ``sent``.

    ``size`` [1] is how many of them the client may have, ``turn`` [1] how many minibatches have given rows, ``hidden``
    [K, n] each row's own mask; ``first``, ``second`` and ``count`` are Adam's.
    """

    def __init__(self, rows: int, length: int, tokens: int) -> None:
        super().__init__()
        for name in ("initial", "learned", "sent", "first", "second"):
            self.register_buffer(name, torch.zeros(rows, length))
        for name in ("size", "turn", "count"):
            self.register_buffer(name, torch.zeros(1))
        self.register_buffer("hidden", torch.zeros(rows, tokens, dtype=torch.bool))


def draw(x_BL: Tensor, seen_BL: Tensor, old: Tensors, masks_Kn: Tensor) -> Tensors:
    """The core-set after one more minibatch of windows has given its next ``DRAW_AT_ONCE`` rows.

    Rows are normalised, 0 where nothing was observed; ``masks_Kn`` are uniform draws for the rows' masks.
    """
    mean, sd = visible_scale(x_BL, seen_BL)
    place = torch.arange(len(masks_Kn), device=x_BL.device) - DRAW_AT_ONCE * old["turn"]
    at = place.clamp(0, min(DRAW_AT_ONCE, len(x_BL)) - 1).long()
    fresh = ((place >= 0) & (place < DRAW_AT_ONCE))[:, None]
    rows = torch.where(fresh, ((x_BL - mean) / sd * seen_BL)[at], old["initial"])
    return {"initial": rows, "learned": rows, "hidden": hide(masks_Kn, torch.ones_like(rows)), "turn": old["turn"] + 1}


def standardised(rows_KL: Tensor) -> Tensor:
    """Each row with mean 0 and deviation 1, after it was cut at ``LARGEST``."""
    rows_KL = rows_KL.clamp(-LARGEST, LARGEST)
    centred = rows_KL - rows_KL.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-10).sqrt()


def amplitude_noise(rows_KL: Tensor, normal_KL: Tensor, strength: float) -> Tensor:
    """Rows whose Fourier amplitudes are multiplied by max(0, 1 + strength * normal), phases kept.

    A factor that is real and not negative moves no phase, those of the constant and the Nyquist bin included.
    """
    spectrum = torch.fft.rfft(rows_KL)
    factor = (1 + strength * normal_KL[..., : spectrum.shape[-1]]).clamp(min=0)
    return torch.fft.irfft(spectrum * factor, n=rows_KL.shape[-1])


@dataclass(frozen=True)
class CoreSets:
    """How clients build core-sets at the weights that training ended with, and how a server takes them.

    At most ``rows`` windows, and ``share`` of a client's; ``steps`` of Adam on each of ``REAL_BATCHES`` minibatches
    towards the gradient of the model's layer number ``last``; ``noise`` is that of the amplitudes.
    """

    rows: int
    share: float
    steps: int
    noise: float
    last: int

    def size(self, windows_C: Tensor) -> Tensor:
        """How many rows clients with so many training windows may have, [C]."""
        return (windows_C * self.share).floor().clamp(max=self.rows)

    # -- clients -------------------------------------------------------------------------------------------------

    def phases(self) -> tuple[Phase, Phase]:
        """Windows are drawn, then matched; neither takes a gradient step on the model."""
        draws = -(-self.rows // DRAW_AT_ONCE)
        settle = Phase("settle", epochs=1, batches=draws, download=False, upload=False)
        return settle, Phase("match", epochs=1, batches=REAL_BATCHES, download=False)

    def emptied(self, clients: Clients) -> Tensors:
        """The core-sets' buffers before they are drawn anew."""
        of = {f"core.{name}" for name in ("first", "second", "count", "turn")}
        fresh = {name: torch.zeros_like(value) for name, value in clients.buffers.items() if name in of}
        return fresh | {"core.size": self.size(clients.weights)[:, None]}

    def step(self, phase: Phase) -> Step:
        """What a minibatch does in either phase: it changes buffers alone."""
        if phase.name == "settle":
            masks = Noise((self.rows, "tokens"), "uniform", per_sample=False)
            return Step(self.draw, None, name="settle", noise={"core": masks})
        noise = {"order": Noise(("tokens",), "uniform"), "spectrum": Noise((self.rows, "length"), per_sample=False)}
        return Step(self.match, None, name="match", noise=noise)

    def draw(self, model: Bound, batch: SeriesWindows, moment: Moment) -> Outcome:
        """Random training windows as the first core-set, each with a mask of its own."""
        old = {name: model[f"core.{name}"] for name in ("initial", "hidden", "turn")}
        drawn = draw(batch.x, batch.seen, old, moment.noise["core"])
        return Outcome(batch.x.new_zeros(()), {f"core.{name}": value for name, value in drawn.items()})

    def match(self, model: Bound, batch: SeriesWindows, moment: Moment) -> Outcome:
        """Rows whose gradient, in the last layer and the head, is that of a real minibatch; and the blur."""
        core = {name.removeprefix("core."): value for name, value in model.tensors.items() if name.startswith("core.")}
        real = batch._replace(hidden=hide(moment.noise["order"], batch.seen))
        found, ends = learned(model, real, core, self.last, self.steps)
        blurred = amplitude_noise(standardised(found["learned"]), moment.noise["spectrum"], self.noise)
        found["sent"] = blurred * own_rows(core)[:, None]
        buffers = {f"core.{name}": value for name, value in found.items()}
        return Outcome(ends[1], buffers, {"match_begun": ends[0], "match_ended": ends[1]})

    # -- what crosses --------------------------------------------------------------------------------------------

    def sent(self, numbers: Tensor, message: Tensors, clients: Clients) -> Tensor:
        """Of a message's ``numbers`` [c] those that are sent: not the rows beyond a client's own."""
        if "core" not in message:
            return numbers
        return numbers - ((self.rows - self.size(clients.weights)) * message["core"].shape[-1]).to(numbers)

    def received(self, uploads: Uploads) -> Tensors:
        """What the server keeps of core-sets until it has tuned on them."""
        size = self.size(uploads.weights)
        return {"core/rows": uploads["core"], "core/owner": uploads.positions, "core/size": size}

    def union(self, server: Tensors, task: SeriesTask, keys_C: Tensor) -> SeriesWindows:
        """All rows that the server has received as windows [R, L], each with a mask of its own."""
        x, keys = union(server["core/rows"], server["core/size"], keys_C[server["core/owner"]])
        hidden = hide(uniform(keys, (task.tokens,), task.dtype), torch.ones_like(x))
        return SeriesWindows(x, torch.ones_like(x), hidden, x.new_ones(len(x)))
