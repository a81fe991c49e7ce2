"""Local training: every client's own steps, all clients of a chunk in one batched tensor program.

Two backends do the same arithmetic: ``batched`` maps the loss over stacked clients, ``loop`` takes one client at a time
and is the reference that tests compare with. Coupled methods have one backend, on stacked tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import grad_and_value, vmap

from fedloom.federation.exchange import Exchange, Ledger
from fedloom.federation.method import Method, Moment, Outcome, Phase, Step
from fedloom.federation.optim import norms
from fedloom.federation.randomness import derive, normal, orders, uniform
from fedloom.federation.stack import Bound, StackedBound, Tensors, along, matching
from fedloom.federation.task import Task


@dataclass
class Local:
    """Stacked clients [c, ...] at work: parameters, buffers and each step's moments, all updated in place."""

    rows: Tensor
    params: Tensors
    buffers: Tensors
    moments: dict[str, Tensors]


@dataclass
class Progress:
    """What local training reports: per-client means over samples, and the first loss that was not finite."""

    samples: Tensor
    loss: Tensor
    means: Tensors = field(default_factory=dict)
    diverged: list[tuple[int, int]] = field(default_factory=list)  # (position of client, batch of the round)


@dataclass(frozen=True)
class Work:
    """What a phase's local training needs to know; ``batches`` 0 is all of an epoch."""

    method: Method
    skeleton: nn.Module
    task: Task
    phase: Phase
    seed: int
    epochs: int
    batches: int
    batch: int
    stride: int
    backend: str
    products: str = "full"
    server: Tensors = field(default_factory=dict)

    def products_in_force(self) -> torch.autocast:
        """Within it matrix products have the protocol's precision; what is kept has that of weights and data."""
        # Under vmap the casts of one call cannot be kept for the next.
        reduced = self.products == "bfloat16"
        return torch.autocast(self.task.device.type, torch.bfloat16, enabled=reduced, cache_enabled=False)


def draw_noise(step: Step, task: Task, keys: Tensor, samples: int, *site: int | str) -> Tensors:
    """The step's draws at a ``site`` for clients with ``keys`` [c].

    They are [c, B, *shape] each, or [c, *shape] where not per sample.
    """
    if not step.noise:
        return {}
    drawn, keys = {}, derive(keys, *site)
    for name, spec in step.noise.items():
        shape = tuple(getattr(task, size) if isinstance(size, str) else size for size in spec.shape)
        draw = {"normal": normal, "uniform": uniform}[spec.kind]
        drawn[name] = draw(derive(keys, name), (samples, *shape) if spec.per_sample else shape, task.dtype)
    return drawn


def trainable(step: Step, params: Tensors, server: Tensors) -> Tensors:
    """Where a step finds what it trains: the clients' parameters [c, ...], or the server's tensors [1, ...]."""
    return {n: t[None] for n, t in server.items()} if step.at_server else params


def _split(step: Step, params: Tensors) -> tuple[Tensors, Tensors]:
    """Parameters that a step trains, and those it holds fixed."""
    names = matching(params, step.over) if step.over else list(params)
    if step.optimiser is None:
        names = []
    return {n: params[n] for n in names}, {n: p for n, p in params.items() if n not in names}


def _one(step: Step, skeleton: nn.Module, progress: float) -> Any:
    """One client's gradient, free of its axis: (trained, fixed, batch, start, noise) -> (grads, outcome)."""

    def loss(trained: Tensors, fixed: Tensors, batch: Any, start: Tensors, noise: Tensors) -> tuple[Tensor, Outcome]:
        outcome = step.loss(Bound(skeleton, trained | fixed), batch, Moment(start, noise, None, progress))
        return outcome.loss, outcome

    def gradient(
        trained: Tensors, fixed: Tensors, batch: Any, start: Tensors, noise: Tensors
    ) -> tuple[Tensors, Outcome]:
        if not trained:
            return {}, loss(trained, fixed, batch, start, noise)[1]
        grads, (_, outcome) = grad_and_value(loss, has_aux=True)(trained, fixed, batch, start, noise)
        return grads, outcome

    return gradient


def _looped(gradient: Any, *args: Any) -> tuple[Tensors, Outcome]:
    """Run ``gradient`` client by client and stack the results: the reference for vmap."""
    leaves, spec = torch.utils._pytree.tree_flatten(args)
    results = [
        gradient(*torch.utils._pytree.tree_unflatten([leaf[i] for leaf in leaves], spec)) for i in range(len(leaves[0]))
    ]
    flat = [torch.utils._pytree.tree_flatten(r) for r in results]
    stacked = [torch.stack(column) for column in zip(*(leaves for leaves, _ in flat), strict=True)]
    return torch.utils._pytree.tree_unflatten(stacked, flat[0][1])


def _coupled(step: Step, work: Work, exchange: Exchange, *args: Any) -> tuple[Tensors, Outcome]:
    """The gradient of the sum of all clients' losses, on stacked tensors.

    Plain autograd: ``grad_and_value`` would keep what a second derivative needs, and here all clients stand at once.
    """
    trained, fixed, batch, start, noise = args
    leaves = {n: p.detach().requires_grad_() for n, p in trained.items()}
    with torch.set_grad_enabled(bool(leaves)):
        server = work.server | ({n: p[0] for n, p in leaves.items()} if step.at_server else {})
        moment = Moment(start, noise, exchange, work.phase.progress, server)
        model = StackedBound(work.skeleton, fixed if step.at_server else leaves | fixed)
        outcome = step.loss(model, batch, moment)
        total = outcome.loss.sum()
    if not leaves:
        return {}, outcome
    grads = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
    return dict(zip(leaves, grads, strict=True)), outcome


def _count_means(progress: Progress, rows: slice, outcome: Outcome, weight_C: Tensor) -> None:
    progress.samples[rows] += weight_C
    progress.loss[rows] += outcome.loss.detach().to(torch.float64) * weight_C
    for name, value in outcome.means.items():
        _add_mean(progress, rows, name, value, weight_C)


def _add_mean(progress: Progress, rows: slice, name: str, value: Tensor, weight_C: Tensor) -> None:
    total = progress.means.setdefault(
        name, torch.zeros((len(progress.samples), *value.shape[1:]), dtype=torch.float64, device=value.device)
    )
    total[rows] += value.detach().to(torch.float64) * along(weight_C, value)


@contextmanager
def _held_back(step: Step, loss_C: Tensor, tensors: Tensors) -> Iterator[None]:
    """What is written into ``tensors`` [C, ...] stays for clients whose loss is above ``step.above`` alone."""
    if step.above is None:
        yield
        return
    before, moved = {n: t.clone() for n, t in tensors.items()}, loss_C.detach() > step.above
    yield
    for name, old in before.items():
        now = tensors[name]
        # Step counts lie on the CPU whatever the device: here alone a step waits for its loss.
        now.copy_(torch.where(along(moved.to(now.device), now), now, old))


def train_clients(work: Work, local: Local, ledger: Ledger) -> Progress:
    """Run the phase's epochs on the clients of ``local``, in place.

    Clients come sorted by size, largest first, so that those with steps left are always a prefix of the rows: a
    finished client's weights, moments and buffers are not touched. Coupled clients share one order of samples.
    """
    method, task = work.method, work.task
    sizes = task.sizes("train").to(task.device)[local.rows]
    steps = method.steps(work.phase)
    for step in steps:
        if step.optimiser is not None and step.name not in local.moments:
            raise KeyError(
                f"{method.name}: step {step.name!r} has no moments; give steps of one method different names"
            )
    keys = derive(task.keys[local.rows], work.seed, work.phase.name, work.phase.round)
    order_keys = keys
    exchange = None
    if method.couples:
        shared = torch.zeros_like(task.keys[:1])
        order_keys = derive(shared, work.seed, work.phase.name, work.phase.round).expand(len(keys))
        exchange = Exchange(method.edges(task), ledger, training=True)
    anchored = any(step.anchored for step in steps)
    start = {n: p.clone() for n, p in local.params.items()} if anchored else {}
    count = len(local.rows)
    progress = Progress(
        samples=torch.zeros(count, dtype=torch.float64, device=task.device),
        loss=torch.zeros(count, dtype=torch.float64, device=task.device),
    )
    finite: list[Tensor] = []
    used = (sizes + work.stride - 1) // work.stride
    if work.batches:
        used = used.clamp(max=work.batches * work.batch)
    all_samples, longest = (int(n.max()) if count else 0 for n in (sizes, used))
    unused = torch.arange(longest, device=task.device)[None, :] >= used[:, None]
    remaining = used.tolist()
    per_epoch = math.ceil(longest / work.batch) if longest else 0
    gradients = {step.name: _one(step, work.skeleton, work.phase.progress) for step in steps}
    for epoch in range(work.epochs):
        order = orders(derive(order_keys, "order", epoch), sizes, all_samples, longest)
        order = order.masked_fill(unused, all_samples)
        for b in range(per_epoch):
            active = slice(0, sum(n > b * work.batch for n in remaining))
            width = min(work.batch, max(remaining) - b * work.batch)
            samples = order[active, b * work.batch : b * work.batch + width]
            batch = task.batch("train", local.rows[active], samples)
            weight_C = (samples < sizes[active, None]).sum(1).to(torch.float64)
            own = {n: p[active] for n, p in local.params.items()}
            for position, step in enumerate(steps):
                site = f"step {step.name}", epoch * per_epoch + b
                for repeat in range(step.repeat):
                    trained, fixed = _split(step, trainable(step, own, work.server))
                    fixed = (own if step.at_server else fixed) | {n: v[active] for n, v in local.buffers.items()}
                    args = (
                        trained,
                        fixed,
                        batch,
                        {n: p[active] for n, p in start.items()} if step.anchored else {},
                        draw_noise(step, task, keys[active], samples.shape[1], *site, repeat),
                    )
                    with work.products_in_force():
                        if exchange is not None:
                            grads, outcome = _coupled(step, work, exchange, *args)
                        elif work.backend == "loop":
                            grads, outcome = _looped(gradients[step.name], *args)
                        else:
                            grads, outcome = vmap(gradients[step.name])(*args)
                    if step.gradient is not None and repeat == 0:
                        _add_mean(progress, active, step.gradient, norms(grads), weight_C)
                    if step.optimiser is not None:
                        moments = {n: m[active] for n, m in local.moments[step.name].items()}
                        with _held_back(step, outcome.loss, trained | moments):
                            step.optimiser.step(trained, grads, moments)
                    for name, value in outcome.buffers.items():
                        local.buffers[name][active] = value.detach()
                    if position == 0 and repeat == 0:
                        _count_means(progress, active, outcome, weight_C)
                    ok = torch.ones(count, dtype=torch.bool, device=task.device)
                    ok[active] = torch.isfinite(outcome.loss.detach())
                    finite.append(ok)
    if finite:
        bad = ~torch.stack(finite)
        if bool(bad.any()):
            first = int(bad.any(1).nonzero()[0])
            batch_number = first // sum(step.repeat for step in steps)
            progress.diverged = [(int(c), batch_number) for c in bad[first].nonzero()[:, 0]]
    weight = progress.samples.clamp(min=1)
    progress.loss /= weight
    for name, total in progress.means.items():
        progress.means[name] = total / along(weight, total)
    return progress
