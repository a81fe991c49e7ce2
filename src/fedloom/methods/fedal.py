"""FeDaL: a foundation model of time series, learned from clients whose datasets differ in kind.

"FeDaL: Federated Dataset Learning for General Time Series Foundation Models": clients take their dataset's bias out of
the shared representation (domain bias elimination, DBE); the server corrects the mean of their weights and tunes it on
core-sets that they send (global bias elimination, GBE). Its constants were not published; those below are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fedloom.federation.correction import Correction, corrected, drifted, held
from fedloom.federation.masking import hide
from fedloom.federation.method import ClientModel, Clients, Method, Moment, Noise, Outcome, Phase, Step, Uploads
from fedloom.federation.randomness import derive, uniform
from fedloom.federation.stack import Bound, build, matching
from fedloom.federation.tasks.series import SeriesTask, SeriesWindows
from fedloom.federation.tuning import tuned, union
from fedloom.models.layers.core_set import DRAW_AT_ONCE, CoreSet, amplitude_noise, draw, learned, own_rows, standardised
from fedloom.models.layers.domain_bias import Seasonal
from fedloom.models.patch_transformer import MASKS, PatchTransformer, PatchTransformerModel

Tensors = dict[str, Tensor]

MODEL = ("embed", "mask", "positions", "layers", "norm", "head")  # theta: what is averaged, corrected and tuned
REAL_BATCHES = 6  # minibatches that a core-set is matched to, one after the other
TUNING_BATCH = 64
# No part of the judged weights; of the core-set, they keep what an audit compares.
AT_HOME = ("reference", "received", "drift", *(f"core.{of}" for of in ("first", "second", "count", "turn", "hidden")))


class Client(PatchTransformer):
    """The transformer with its bias, the server's ``reference`` b^g, and what the method keeps beside them.

    ``own`` [D] is the client's b where the judged one is the server's. ``received`` and ``drift`` are theta as it came
    and FedDyn's g, each as one vector.
    """

    reference: Tensor

    def __init__(self, task: SeriesTask, model: PatchTransformerModel.Params, params: FeDaL.Params) -> None:
        super().__init__(task, model)
        theta: Tensors = dict(self.named_parameters())
        size = sum(int(theta[name].numel()) for name in matching(theta, MODEL))
        if params.dbe:
            self.register_buffer("reference", torch.zeros(model.width))
            self.register_buffer("own", torch.zeros(model.width))
        if params.core_rows:
            self.core = CoreSet(params.core_rows, task.length, task.tokens)
        if params.correction == "feddyn":
            self.register_buffer("received", torch.zeros(size))
            self.register_buffer("drift", torch.zeros(size))


class FeDaL(Method):
    """DBE at the clients; weighted mean, correction, core-set tuning and fusion at the server (Sec. on GBE)."""

    name = "fedal"
    cite = "FeDaL: Federated Dataset Learning for General Time Series Foundation Models (ICLR 2026), DBE and GBE"
    family = "series"
    takes_model = True
    only_averages = False
    shared = (*MODEL, "domain.bias")

    @dataclass(frozen=True)
    class Params:
        """Switches are the paper's ablations; grids of the sensitivity study in brackets."""

        lr: float = 1e-3
        dbe: bool = True
        seasonal: Seasonal = "literal"  # as printed, which is all but inert; rms: see DomainBias
        align_weight: float = 0.1  # lambda [0, .01, .1, 1], of the squared distance of b to b^g, a mean over D
        correction: Correction = "mean"  # the stable form nearest to the printed one, `literal`
        beta: float = 0.1  # cancels in `literal` and `mean`
        core_rows: int = 16  # K, windows a client; 0: no core-sets, no tuning
        core_share: float = 0.05  # of a client's training windows that K may reach
        core_steps: int = 5  # Adam steps on each of six real minibatches
        core_noise: float = 0.1  # sigma_f, of the amplitudes
        fusion: float = 0.7  # alpha [.3, .5, .7, .9, 1]: the share of the untuned weights

    def __init__(self, params: Params | None = None, model: ClientModel | None = None) -> None:
        super().__init__(params, model)
        own = replace(self.model.params, dbe=self.params.dbe, seasonal=self.params.seasonal)
        self.model: PatchTransformerModel = PatchTransformerModel(own)

    # -- one client: reconstruction with the bias put back, then a core-set at the weights that come out ------------

    def client(self, task: SeriesTask) -> nn.Module:
        """Backbone, domain bias, core-set."""
        return Client(task, self.model.params, self.params)

    def phases(self, round_: int, rounds: int) -> Sequence[Phase]:
        """Training; where something is left to do with its result, a look back without a gradient step; matching."""
        settle = Phase("settle", epochs=1, batches=-(-self.params.core_rows // DRAW_AT_ONCE) or 1, download=False)
        if self.params.core_rows:
            match = Phase("match", epochs=1, batches=REAL_BATCHES, download=False)
            return (Phase(upload=False), replace(settle, upload=False), match)
        return (Phase(upload=False), settle) if self.params.correction == "feddyn" else (Phase(),)

    def begin(self, phase: Phase, clients: Clients) -> Tensors:
        """b starts from b^g every round; after training FedDyn's g moves on and the core-set is emptied."""
        old, feddyn = clients.buffers, self.params.correction == "feddyn"
        fresh = {}
        if phase.name == "train":
            if self.params.dbe:
                fresh["reference"] = old["domain.bias"]
            if feddyn:
                fresh["received"] = self._flat(clients.params, 1)
        elif phase.name == "settle":
            if feddyn:
                after = self._flat(clients.params, 1)
                fresh["drift"] = drifted(after, old["received"], old["drift"], self.params.beta)
            if self.params.core_rows:
                emptied = ("core.first", "core.second", "core.count", "core.turn")
                fresh |= {name: torch.zeros_like(old[name]) for name in emptied}
                fresh["core.size"] = self._core_size(clients.weights)[:, None]
        return fresh

    def _core_size(self, windows_C: Tensor) -> Tensor:
        return (windows_C * self.params.core_share).floor().clamp(max=self.params.core_rows)

    def _flat(self, tensors: Tensors, skip: int) -> Tensor:
        return torch.cat([tensors[name].flatten(skip) for name in matching(tensors, MODEL)], skip)

    def steps(self, phase: Phase) -> Sequence[Step]:
        """One AdamW step a minibatch; the looks back change buffers alone."""
        rows = (self.params.core_rows,)
        if phase.name == "settle":
            masks = {"core": Noise((*rows, "tokens"), "uniform", per_sample=False)}
            return (Step(self.draw, None, name="settle", noise=masks if self.params.core_rows else {}),)
        if phase.name == "match":
            blur = {"spectrum": Noise((*rows, "length"), per_sample=False)}
            return (Step(self.match, None, name="match", noise=MASKS | blur),)
        return (Step(self.loss, self.model.optimiser(phase, self.params.lr), noise=MASKS),)

    def loss(self, model: Bound, batch: SeriesWindows, moment: Moment) -> Outcome:
        """|f_h(f_b(x) + b) - x|^2 on hidden points + lambda |b - b^g|^2, and FedDyn's terms where asked for."""
        loss, bias = model(batch, moment, method=self.model.reconstruction)
        buffers, means = {}, {}
        if bias is not None:
            gap = (bias - model["reference"]).square().mean()
            loss = loss + self.params.align_weight * gap
            buffers, means = {"domain.bias": bias.detach()}, {"bias_gap": gap}
        if self.params.correction == "feddyn":
            loss = loss + held(self._flat(model.tensors, 0), model["received"], model["drift"], self.params.beta)
        return Outcome(loss, buffers, means)

    def draw(self, model: Bound, batch: SeriesWindows, moment: Moment) -> Outcome:
        """Random training windows as the first core-set, each with a mask of its own."""
        nothing = batch.x.new_zeros(())
        if not self.params.core_rows:
            return Outcome(nothing)
        old = {name: model[f"core.{name}"] for name in ("initial", "hidden", "turn")}
        drawn = draw(batch.x, batch.seen, old, moment.noise["core"])
        return Outcome(nothing, {f"core.{name}": value for name, value in drawn.items()})

    def match(self, model: Bound, batch: SeriesWindows, moment: Moment) -> Outcome:
        """Core-set rows whose gradient, in the last layer and the head, is that of a real minibatch; and the blur."""
        core = {name.removeprefix("core."): value for name, value in model.tensors.items() if name.startswith("core.")}
        real = batch._replace(hidden=hide(moment.noise["order"], batch.seen))
        found, ends = learned(model, real, core, self.model.params.layers - 1, self.params.core_steps)
        blurred = amplitude_noise(standardised(found["learned"]), moment.noise["spectrum"], self.params.core_noise)
        found["sent"] = blurred * own_rows(core)[:, None]
        buffers = {f"core.{name}": value for name, value in found.items()}
        return Outcome(ends[1], buffers, {"match_begun": ends[0], "match_ended": ends[1]})

    # -- what is shared: theta, b, the blurred core-set --------------------------------------------------------------

    def upload(self, clients: Clients) -> Tensors:
        """theta, b and, padded to K rows, the core-set."""
        sent = super().upload(clients)
        return sent | {"core": clients.buffers["core.sent"]} if self.params.core_rows else sent

    def charged(self, message: Tensors, clients: Clients) -> Tensor:
        """All but the padding of core-sets: a client sends K_i rows of them."""
        numbers = super().charged(message, clients)
        if "core" in message:
            rows, length = message["core"].shape[1:]
            numbers = numbers - ((rows - self._core_size(clients.weights)) * length).to(numbers)
        return numbers

    # -- the server: mean, correction, tuning, fusion ----------------------------------------------------------------

    def server(self, task: SeriesTask, start: Tensors) -> Tensors:
        """theta, b^g = 0, the correction's s = 0 and the number of clients that can take part."""
        state = super().server(task, start)
        if self.params.correction != "none":
            state |= {f"drift/{name}": torch.zeros_like(start[name]) for name in matching(start, MODEL)}
        return state | {"clients": (task.sizes("train") > 0).sum()[None].to(task.device)}

    def aggregate(self, server: Tensors, uploads: Uploads) -> Tensors:
        """The corrected mean of theta, the mean of b, and the core-sets as they came."""
        theta = {name: server[name] for name in matching(server, MODEL)}
        drift = {name.removeprefix("drift/"): s for name, s in server.items() if name.startswith("drift/")}
        weights, sums = corrected(self.params.correction, self.params.beta, server["clients"], theta, drift, uploads)
        server = server | weights | {f"drift/{name}": s for name, s in sums.items()}
        if self.params.dbe:
            server["domain.bias"] = uploads.mean(uploads["domain.bias"])
        if self.params.core_rows:
            size = self._core_size(uploads.weights)
            received = {"rows": uploads["core"], "owner": uploads.positions, "size": size}
            server |= {f"core/{name}": value for name, value in received.items()}
        return server

    def serve(self, server: Tensors, task: SeriesTask, round_: int, rounds: int, seed: int) -> Tensors:
        """alpha theta + (1 - alpha) theta tuned on the union of the core-sets, which are then forgotten.

        One epoch at a tenth of the clients' learning rate, b held at b^g.
        """
        kept = {name: value for name, value in server.items() if not name.startswith("core/")}
        if not self.params.core_rows or self.params.fusion == 1:
            return kept
        keys = derive(task.keys[server["core/owner"]], seed, "tuning", round_)
        x, keys = union(server["core/rows"], server["core/size"], keys)
        hidden = hide(uniform(keys, (task.tokens,), task.dtype), torch.ones_like(x))
        samples = SeriesWindows(x, torch.ones_like(x), hidden, x.new_ones(len(x)))
        skeleton = build(lambda: self.client(task), 0, 0, task.dtype).to(task.device)
        theta = {name: kept[name] for name in matching(kept, MODEL)}
        bias = {name: kept[name] for name in matching(kept, ("domain.bias",))}

        def loss(weights: Tensors, batch: SeriesWindows) -> Tensor:
            model = Bound(skeleton, bias | weights)
            error: Tensor = model(model(batch, method="embedded"), batch, method="judged")
            return error

        optimiser = self.model.optimiser(Phase(progress=round_ / rounds), 0.1 * self.params.lr)
        found = tuned(loss, theta, samples, TUNING_BATCH, optimiser)
        return kept | {name: torch.lerp(value, theta[name], self.params.fusion) for name, value in found.items()}

    # -- what is judged ----------------------------------------------------------------------------------------------

    def evaluated(self, server: Tensors, clients: Clients) -> Tensors:
        """theta and b^g for everyone; each client's own b beside them."""
        judged = super().evaluated(server, clients)
        if self.params.dbe:
            judged["own"] = clients.buffers["domain.bias"]
        return {name: value for name, value in judged.items() if name not in AT_HOME}

    @property
    def personalised(self) -> Callable[[Bound, SeriesWindows, Moment], Tensor] | None:
        """A prediction with the client's own b in place of b^g, where there is any b."""
        if not self.params.dbe:
            return None
        return lambda model, batch, moment: model.holding({"domain.bias": model["own"]})(batch)

    def round_log(self, server: Tensors, clients: Clients) -> dict[str, float]:
        """How far biases lie from b^g and from each other, and how well core-sets match before and after."""
        log = {name: float(value.mean()) for name, value in clients.means.items()}
        if "bias_gap" in log:
            log["bias_spread"] = float(clients.buffers["domain.bias"].std(0, correction=0).mean())
        return log
