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

from fedloom.federation.correction import Correction, GradientCorrection
from fedloom.federation.method import ClientModel, Clients, Method, Moment, Outcome, Phase, Step, Uploads
from fedloom.federation.randomness import derive
from fedloom.federation.stack import Bound, Tensors, build, matching
from fedloom.federation.tasks.series import SeriesTask, SeriesWindows
from fedloom.federation.tuning import tuned
from fedloom.models.layers.core_set import CoreSet, CoreSets
from fedloom.models.layers.domain_bias import Seasonal
from fedloom.models.patch_transformer import MASKS, PatchTransformer, PatchTransformerModel

MODEL = ("embed", "mask", "positions", "layers", "norm", "head")  # theta: what is averaged, corrected and tuned
JUDGED = (*MODEL, "domain", "own", "core.initial", "core.learned", "core.sent", "core.size")  # and what is audited
TUNING_BATCH = 64


class FeDaL(Method):
    """DBE at the clients; weighted mean, correction, core-set tuning and fusion at the server (Sec. on GBE)."""

    name = "fedal"
    cite = "FeDaL: Federated Dataset Learning for General Time Series Foundation Models (ICLR 2026), DBE and GBE"
    family = "series"
    takes_model = True
    only_averages = False

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
        p: FeDaL.Params = self.params
        backbone = replace(self.model.params, dbe=p.dbe, seasonal=p.seasonal)
        self.model: PatchTransformerModel = PatchTransformerModel(backbone)
        self.correction = GradientCorrection(p.correction, p.beta, MODEL)
        made = p.core_rows, p.core_share, p.core_steps, p.core_noise, backbone.layers - 1
        self.core = CoreSets(*made) if p.core_rows else None

    def client(self, task: SeriesTask) -> nn.Module:
        """The transformer with its bias; beside them b^g as it came, the own b, a core-set, FedDyn's vectors."""
        module = PatchTransformer(task, self.model.params)
        biases = dict.fromkeys(("reference", "own"), self.model.params.width) if self.params.dbe else {}
        for name, size in (biases | self.correction.buffers(module)).items():
            module.register_buffer(name, torch.zeros(size))
        if self.core:
            module.core = CoreSet(self.core.rows, task.length, task.tokens)
        return module

    def phases(self, round_: int, rounds: int) -> Sequence[Phase]:
        """Training; then core-sets, and FedDyn's g, at the weights that training ended with."""
        if self.core:
            return (Phase(upload=False), *self.core.phases())
        return self.correction.phases()

    def begin(self, phase: Phase, clients: Clients) -> Tensors:
        """b starts from b^g every round; after training FedDyn's g moves on and the core-set is emptied."""
        fresh = self.correction.begin(phase, clients)
        if phase.name == "train" and self.params.dbe:
            fresh["reference"] = clients.buffers["domain.bias"]
        if phase.name == "settle" and self.core:
            fresh |= self.core.emptied(clients)
        return fresh

    def steps(self, phase: Phase) -> Sequence[Step]:
        """One AdamW step a minibatch; what follows changes buffers alone."""
        if phase.name == "train":
            return (Step(self.loss, self.model.optimiser(phase, self.params.lr), noise=MASKS),)
        return (self.core.step(phase),) if self.core else ()

    def loss(self, model: Bound, batch: SeriesWindows, moment: Moment) -> Outcome:
        """|f_h(f_b(x) + b) - x|^2 on hidden points + lambda |b - b^g|^2, and FedDyn's terms where asked for."""
        loss, bias = model(batch, moment, method=self.model.reconstruction)
        if bias is None:
            return Outcome(self.correction.held(loss, model))
        gap = (bias - model["reference"]).square().mean()
        loss = self.correction.held(loss + self.params.align_weight * gap, model)
        return Outcome(loss, {"domain.bias": bias.detach()}, {"bias_gap": gap})

    @property
    def shared(self) -> tuple[str, ...]:
        """theta, and b where there is any."""
        return (*MODEL, "domain.bias") if self.params.dbe else MODEL

    def upload(self, clients: Clients) -> Tensors:
        """theta, b and, padded to K rows, the blurred core-set."""
        return super().upload(clients) | ({"core": clients.buffers["core.sent"]} if self.core else {})

    def charged(self, message: Tensors, clients: Clients) -> Tensor:
        """All but the padding of core-sets."""
        numbers = super().charged(message, clients)
        return self.core.sent(numbers, message, clients) if self.core else numbers

    def server(self, task: SeriesTask, start: Tensors) -> Tensors:
        """theta, b^g = 0, and what the correction starts from."""
        return super().server(task, start) | self.correction.start(task, start)

    def aggregate(self, server: Tensors, uploads: Uploads) -> Tensors:
        """The corrected mean of theta, the mean of b, and the core-sets as they came."""
        server = server | self.correction.corrected(server, uploads)
        if self.params.dbe:
            server["domain.bias"] = uploads.mean(uploads["domain.bias"])
        return server | (self.core.received(uploads) if self.core else {})

    def serve(self, server: Tensors, task: SeriesTask, round_: int, rounds: int, seed: int) -> Tensors:
        """alpha theta + (1 - alpha) theta tuned on all core-sets once, at a tenth of the clients' rate and with b^g."""
        kept = {name: value for name, value in server.items() if not name.startswith("core/")}
        if self.core is None or self.params.fusion == 1:
            return kept
        theta, bias = ({name: kept[name] for name in matching(kept, of)} for of in (MODEL, ("domain.bias",)))
        samples = self.core.union(server, task, derive(task.keys, seed, "tuning", round_))
        model = Bound(build(lambda: self.client(task), 0, 0, task.dtype).to(task.device), bias)
        optimiser = self.model.optimiser(Phase(progress=round_ / rounds), 0.1 * self.params.lr)
        found = tuned(model, "masked_error", theta, samples, TUNING_BATCH, optimiser)
        return kept | {name: torch.lerp(value, theta[name], self.params.fusion) for name, value in found.items()}

    def evaluated(self, server: Tensors, clients: Clients) -> Tensors:
        """theta and b^g for everyone; each client's own b, and core-sets, beside them."""
        judged = super().evaluated(server, clients)
        if self.params.dbe:
            judged["own"] = clients.buffers["domain.bias"]
        return {name: judged[name] for name in matching(judged, JUDGED)}

    @property
    def personalised(self) -> Callable[[Bound, SeriesWindows, Moment], Tensor] | None:
        """A prediction with the client's own b in place of b^g, where there is any b."""
        return self._by_own_bias if self.params.dbe else None

    def _by_own_bias(self, model: Bound, batch: SeriesWindows, moment: Moment) -> Tensor:
        return self.predict(model.holding({"domain.bias": model["own"]}), batch, moment)

    def round_log(self, server: Tensors, clients: Clients) -> dict[str, float]:
        """How far biases lie from b^g and from each other, and how well core-sets match before and after."""
        log = {name: float(value.mean()) for name, value in clients.means.items()}
        if "bias_gap" in log:
            log["bias_spread"] = float(clients.buffers["domain.bias"].std(0, correction=0).mean())
        return log
