"""Train one run: the step ``train`` of the pipeline."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from fedloom.errors import main
from fedloom.federation.devices import device
from fedloom.federation.runs import train_run
from fedloom.methods.registry import make
from fedloom.progress import RoundProgress


def run() -> None:
    """Read the arguments, train, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", required=True, help="the run's resolved spec, as JSON")
    parser.add_argument("--digest", required=True, help="digest of the code that the run depends on")
    parser.add_argument("--data", type=Path, required=True, help="folder of the panel or trajectories")
    parser.add_argument("--partition", type=Path, required=True, help="folder of the partition")
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--state", type=Path, required=True, help="folder of the training state, outside the outputs")
    parser.add_argument("--start", type=Path, help="folder of the run that it starts from, where the spec names one")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--gpu-memory-mb", type=int, default=0, help="GPU memory that the job needs, 0 for a whole GPU")
    args = parser.parse_args()
    with device(args.device, args.gpu_memory_mb) as chosen, RoundProgress() as progress:
        train_run(
            json.loads(args.spec), args.digest, make, args.data, args.partition, args.out, args.state,
            chosen, progress, start=args.start,
        )  # fmt: skip


if __name__ == "__main__":
    main(run)
