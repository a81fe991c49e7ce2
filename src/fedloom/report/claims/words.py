"""What the sides of a claim, its numbers and its datasets are called in print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedloom.report.claims.settings import Quantity
from fedloom.report.names import Names, Run

BETWEEN = " + "


@dataclass(frozen=True)
class Side:
    """A run and which of its numbers is meant."""

    run: Run
    number: str


@dataclass(frozen=True)
class Words:
    """What runs, numbers and datasets are called in print."""

    names: Names
    labels: Mapping[str, str]
    numbers: Mapping[str, Quantity]

    def side(self, side: Side | None) -> str:
        """A run in print."""
        return self.names.run(side.run) if side else ""

    def number(self, name: str) -> str:
        """A number in print: by its own name where that is listed, or else by what it measures or counts."""
        quantity = self.numbers[name]
        return self.names.words.get(name) or self.names.word(quantity.metric or quantity.log or str(quantity.record))

    def dataset(self, name: str) -> str:
        """A dataset in print, or several."""
        return BETWEEN.join(self.labels.get(each, each) for each in name.split(BETWEEN))
