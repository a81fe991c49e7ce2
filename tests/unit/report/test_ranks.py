"""The critical-difference diagram shows who comes first at most clients."""

from __future__ import annotations

import matplotlib.pyplot as plt

from fedloom.report.figure import Figure, style
from fedloom.report.ranks import RankOptions, rank_diagram

from .conftest import Workshop

OPTIONS = RankOptions("mae", {"mask": "masked"})


def diagram(workshop: Workshop) -> Figure:
    with style():
        drawn = rank_diagram(workshop.show("figure_curves"), OPTIONS)
        plt.close(drawn.drawn)
    return drawn


def test_methods_stand_in_the_order_of_their_mean_rank_without_those_that_diverged(workshop: Workshop) -> None:
    for method, error in (("fedavg", 4.0), ("atlas", 3.0), ("local", 5.0)):
        workshop.run(method, error)
    workshop.run("fedper", 1.0, diverged="loss is not finite")
    workshop.panel("pems-bay")
    workshop.run("atlas", 3.0, dataset="pems-bay")
    axes = diagram(workshop).drawn.axes
    assert len(axes) == 1  # one method alone has no rank
    assert [label.get_text() for label in axes[0].get_yticklabels()] == ["Atlas", "FedAvg", "Local"]
    title = axes[0].get_title(loc="left").replace("\N{NO-BREAK SPACE}", " ")
    assert title.startswith("METR-LA: 3 clients, CD ")


def test_a_method_lower_in_one_seed_and_higher_in_another_is_ranked_by_its_mean(workshop: Workshop) -> None:
    for seed, error in ((0, 2.0), (1, 6.0)):
        workshop.run("atlas", error, seed=seed)
        workshop.run("fedavg", 3.0, seed=seed)
        workshop.run("local", 5.0, seed=seed)
    axes = diagram(workshop).drawn.axes
    assert [label.get_text() for label in axes[0].get_yticklabels()] == ["FedAvg", "Atlas", "Local"]


def test_too_few_methods_are_said_so(workshop: Workshop) -> None:
    workshop.run("atlas", 3.0)
    axes = diagram(workshop).drawn.axes
    assert [text.get_text() for text in axes[0].texts] == ["no dataset with three methods"]
