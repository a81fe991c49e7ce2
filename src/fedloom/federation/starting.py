"""A run that starts from a run: which tensors it takes over before its first round, and which it leaves as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedloom.artifacts import read_json
from fedloom.errors import InputError
from fedloom.federation.method import Method, Phase, Step, Uploads
from fedloom.federation.rounds import State
from fedloom.federation.stack import Tensors, below, matching
from fedloom.federation.store import read_tensors

SOURCE_FILES = ("weights.safetensors", "run.json")
"""What is read of the run that another starts from."""


@dataclass(frozen=True)
class Start:
    """Where a run starts from: ``run``, a method or method/variant on the same dataset with the same seed.

    ``take`` are prefixes of the tensors that it takes over, as they were in the round that was best in validation: all
    clients start from them, and the server, where it holds them. ``freeze`` are prefixes of those that neither a step
    nor the server changes.
    """

    run: str
    take: tuple[str, ...]
    freeze: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError where nothing is taken."""
        if not self.take:
            raise ValueError("start.take: expected at least one prefix of tensors, found none")


@dataclass(frozen=True)
class Source:
    """The run in ``folder``, from which another starts as ``start`` says.

    ``tensors`` [1 or C, ...] are those of its best round; there are none where it ``diverged``, for that reason.
    """

    folder: Path
    start: Start
    tensors: Tensors
    diverged: str | None

    @property
    def files(self) -> list[Path]:
        """The files behind it."""
        return [self.folder / name for name in SOURCE_FILES]

    def begin(self, state: State) -> None:
        """Put what is taken into ``state``, before its first round: into every client, and where it is, the server.

        Raises InputError for a prefix of nothing, for tensors that the source's clients did not share, and for other
        shapes. Where the source diverged, so has the run that starts from it.
        """
        if self.diverged is not None:
            state.diverged = f"{self.start.run}, from which it starts, diverged: {self.diverged}"
            return
        where = self.folder / "weights.safetensors"
        clients = state.params | state.buffers
        for prefix in self.start.take:
            names = [name for name in matching(self.tensors, (prefix,)) if name in clients]
            if not names:
                known = ", ".join(sorted(self.tensors.keys() & clients.keys()))
                raise InputError(f"{where}: start.take: expected tensors of both runs ({known}), found {prefix!r}")
            for name in names:
                taken = self.tensors[name]
                if len(taken) > 1:
                    raise InputError(f"{where}: {name}: expected one for all clients, found one a client")
                for held in (clients[name], *([state.server[name][None]] if name in state.server else [])):
                    if held.shape[1:] != taken.shape[1:]:
                        expected, found = list(held.shape[1:]), list(taken.shape[1:])
                        raise InputError(f"{where}: {name}: expected shape {expected}, found {found}")
                    held.copy_(taken.expand_as(held))

    def freezing(self, method: Method, task: Any) -> Method:
        """``method`` without any change of what is frozen. Raises InputError for a prefix of no parameter."""
        if not self.start.freeze:
            return method
        parameters = [name for name, _ in method.client(task).named_parameters()]
        for prefix in self.start.freeze:
            if not matching(parameters, (prefix,)):
                known = f"parameters of {method.name} ({', '.join(sorted(parameters))})"
                raise InputError(f"start.freeze: expected {known}, found {prefix!r}")
        return _frozen(method, self.start.freeze, parameters)


def read_source(folder: Path | None, spec: dict[str, Any]) -> Source | None:
    """The run that the run of ``spec`` starts from; None for one that starts anew.

    Raises InputError where ``folder`` holds another run than the spec names, or none.
    """
    if "start" not in spec and folder is None:
        return None
    if "start" not in spec or folder is None:
        named = spec["start"]["run"] if "start" in spec else "none"
        raise InputError(f"start: expected the folder of the run that the spec names ({named}), found {folder}")
    held, what = folder / "weights.safetensors", "the run to start from"
    if not held.is_file():
        raise InputError(f"{held}: expected {what}, found no such file")
    start, record = Start(**spec["start"]), read_json(folder / "run.json", what)
    method, _, variant = start.run.partition("/")
    wanted = {name: spec[name] for name in ("dataset", "seed")} | {"method": method, "variant": variant or "base"}
    for name, value in wanted.items():
        if record["spec"][name] != value:
            raise InputError(f"{folder / 'run.json'}: {name}: expected {value}, found {record['spec'][name]}")
    tensors = below(read_tensors(held)[0], "selected/")
    return Source(folder, start, tensors, record["reason"] if record["verdict"] == "diverged" else None)


def _frozen(method: Method, prefixes: tuple[str, ...], parameters: list[str]) -> Method:
    kind: Any = type(method)

    class Frozen(kind, abstract=True):  # type: ignore[call-arg]
        """The method whose steps and server leave what is frozen as it is."""

        def steps(self, phase: Phase) -> Sequence[Step]:
            return [_without(step, prefixes, parameters) for step in super().steps(phase)]

        @property
        def averages_uploads(self) -> bool:
            return method.averages_uploads

        def aggregate(self, server: Tensors, uploads: Uploads) -> Tensors:
            kept = {name: server[name] for name in matching(server, prefixes)}
            new: Tensors = super().aggregate(server, uploads)
            return new | kept

    made: Method = Frozen(method.params, method.model)
    return made


def _without(step: Step, prefixes: tuple[str, ...], parameters: list[str]) -> Step:
    """The step over what it trains but for what is frozen; where nothing is left, it only takes statistics."""
    if step.at_server:
        raise InputError(f"start.freeze: expected steps at clients, found {step.name}, which trains at the server")
    trained = matching(parameters, step.over or ("",))
    frozen = matching(trained, prefixes)
    left = tuple(name for name in trained if name not in frozen)
    return replace(step, over=left, optimiser=step.optimiser if left else None)
