"""How many clients fit side by side into a memory budget."""

from __future__ import annotations

import torch

from fedloom.federation.local import Work, draw_noise
from fedloom.federation.method import Moment
from fedloom.federation.stack import Bound, Tensors

BUDGET_BYTES = 2 * 2**30  # activations and gradients of one chunk; a quarter of the smallest machine we plan for


def clients_per_chunk(work: Work, params: Tensors) -> int:
    """Clients whose step fits into the budget: one client's saved activations are measured, its gradients counted."""
    task = work.task
    rows = task.sizes("train").argmax()[None].to(task.device)
    width = min(work.batch, int(task.sizes("train").max()))
    if width == 0:
        return len(task.ids)
    batch = task.batch("train", rows, torch.arange(width, device=task.device)[None])
    single = type(batch)(*(part[0] for part in batch))
    saved = 0

    def count(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal saved
        saved += tensor.numel() * tensor.element_size()
        return tensor

    if not work.method.couples:
        module = work.skeleton
        tensors = {n: p.detach().requires_grad_() for n, p in module.named_parameters()} | dict(module.named_buffers())
        for step in work.method.steps(work.phase):
            if step.optimiser is None:
                continue  # it keeps nothing for a gradient
            noise = {n: t[0] for n, t in draw_noise(step, task, task.keys[rows], width).items()}
            with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(count, lambda t: t):
                step.loss(Bound(module, tensors), single, Moment(tensors, noise))
    weights = sum(p[0].numel() * p.element_size() for p in params.values())
    return max(1, BUDGET_BYTES // (saved + 3 * weights + 1))
