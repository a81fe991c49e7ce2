"""Flower's simulation on the same problem: Ray actors of one thread each, as many as torch has threads here."""

from __future__ import annotations

import logging
import os
import time
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

from bench.loop import train
from bench.models import plain_module
from bench.problem import WARM_UP, Problem, Setting, Timing
from fedloom.federation.stack import Tensors


@cache
def in_actor(setting: Setting) -> Problem:
    """The problem, made once in every actor from its seed, in the round that warms up: no data cross processes."""
    torch.set_num_threads(1)
    return Problem(setting)


@lru_cache(maxsize=1)
def order_in_actor(setting: Setting, round_: int) -> Tensor:
    """The order of everyone's samples in a round, drawn once in every actor."""
    return in_actor(setting).order(round_)


def fit(arrays: Tensors, setting: Setting, client: int, round_: int) -> Tensors:
    """What one client sends back in a round."""
    problem = in_actor(setting)
    module = plain_module(setting.model, problem.task)
    module.load_state_dict(arrays)
    train(module, problem.batches(client, order_in_actor(setting, round_)), setting.lr)
    return module.state_dict()


def run(problem: Problem) -> Timing:
    """Train by Flower's ``FedAvg`` with everybody in every round. Actors' start and stop are not counted."""
    os.environ["RAY_DISABLE_IMPORT_WARNING"] = os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    os.environ["FLWR_TELEMETRY_ENABLED"] = os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)
    setting = problem.setting
    rounds = WARM_UP + setting.rounds
    seconds: list[float] = []
    found: dict[str, Tensors] = {}

    class Timed(FedAvg):
        """Notes how long a round takes, from its first message to the new weights."""

        def configure_train(self, *args: Any, **kwargs: Any) -> Any:
            self.begun = time.perf_counter()
            return super().configure_train(*args, **kwargs)

        def aggregate_train(self, *args: Any, **kwargs: Any) -> Any:
            result = super().aggregate_train(*args, **kwargs)
            seconds.append(time.perf_counter() - self.begun)
            return result

    client_app, server_app = ClientApp(), ServerApp()

    @client_app.train()
    def train_client(message: Message, context: Context) -> Message:
        round_ = int(message.content["config"]["server-round"]) - 1
        arrays = message.content["arrays"].to_torch_state_dict()
        sent = fit(dict(arrays), setting, int(context.node_config["partition-id"]), round_)
        content = {"arrays": ArrayRecord(sent), "metrics": MetricRecord({"num-examples": setting.samples})}
        return Message(content=RecordDict(content), reply_to=message)

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        everyone = {"min_train_nodes": setting.clients, "min_available_nodes": setting.clients}
        result = Timed(fraction_evaluate=0.0, **everyone).start(
            grid, ArrayRecord(problem.first_weights), num_rounds=rounds
        )
        found["weights"] = dict(result.arrays.to_torch_state_dict())

    start = {"num_cpus": torch.get_num_threads()}
    run_simulation(
        server_app, client_app, setting.clients,
        backend_config={"init_args": start, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )  # fmt: skip
    return Timing(seconds[WARM_UP:], found["weights"])
