"""Evaluate one run on its test part: the step ``evaluate`` of the pipeline.

python scripts/evaluate.py --run DIR --panel DIR --partition DIR [--out DIR] --device auto
"""

import argparse
from pathlib import Path

from fedloom.errors import main
from fedloom.evaluation.run import evaluate
from fedloom.federation.runs import choose_device
from fedloom.methods.registry import make


def run() -> None:
    """Read the arguments, evaluate, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of the run")
    parser.add_argument("--panel", type=Path, required=True, help="folder of the panel it was trained on")
    parser.add_argument("--partition", type=Path, required=True, help="folder of the partition")
    parser.add_argument("--out", type=Path, help="where the metrics go (the run's folder, if not given)")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    a = parser.parse_args()
    evaluate(a.run, a.panel, a.partition, a.out or a.run, make, choose_device(a.device))


if __name__ == "__main__":
    main(run)
