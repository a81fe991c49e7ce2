"""Train the oracle of DKT-Synth anew. The shipped one was made by this script with its defaults.

Another oracle is another world: after replacing the shipped file its sha256 in ``fedloom.data.trajectories.dkt.oracle``
must be replaced too, and every number measured in the old world is void.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
from pathlib import Path

from safetensors.numpy import save

from fedloom.artifacts import atomic
from fedloom.data.trajectories.dkt.simulator import draw_items
from fedloom.data.trajectories.dkt.training import Recipe, train, weights
from fedloom.errors import main


def run() -> None:
    """Read the arguments, train, write the file and print its sha256."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="file to write (safetensors)")
    for field in dataclasses.fields(Recipe):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default)
    asked = vars(parser.parse_args())
    out, recipe, data = asked.pop("out"), Recipe(**asked), b""
    for epoch, model in train(recipe):
        print(f"epoch {epoch.number}: loss {epoch.loss:.4f}, validation AUC {epoch.auc:.4f}", flush=True)
        data = save(weights(model, draw_items(recipe.seed, recipe.items)), {"validation_auc": f"{epoch.auc:.4f}"})
    with atomic(out) as temporary:
        temporary.write_bytes(data)
    print(f"{out}: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main(run)
