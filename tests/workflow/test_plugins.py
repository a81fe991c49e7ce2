"""A method from outside the package: found through its entry point, trained, and rerun for its own code alone."""

from __future__ import annotations

METHOD = '''
"""FedAvg under another name, from a package of somebody else's."""

from fedloom.methods.fedavg import FedAvg


class Slow(FedAvg):
    """Half of every mean."""

    name = "slow"
    cite = "nobody"
    only_averages = False

    def aggregate(self, server, uploads):
        return {name: 0.5 * uploads.mean(values) for name, values in uploads.tensors.items()}
'''
OWN = {"train slow/base on tiny, seed 0", "evaluate slow/base on tiny, seed 0"}


def test_a_method_from_outside_trains_and_reruns_alone(built) -> None:
    # An installed package is a module and a folder of metadata on Python's path.
    source = built.root / "src"
    (source / "their_method.py").write_text(METHOD)
    (source / "theirs-1.0.dist-info").mkdir()
    (source / "theirs-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (source / "theirs-1.0.dist-info" / "entry_points.txt").write_text("[fedloom.methods]\nslow = their_method\n")
    built.edit("config/scales/tiny.yaml", "[atlas, fedavg,", "[atlas, slow, fedavg,")
    shown = {"atlas/table1", "atlas/figure_curves", "results/atlas/metrics.parquet", "results/report.html"}
    assert built.planned() == OWN | shown
    built.run()
    assert "slow" in (built.root / "results" / "atlas" / "table1.md").read_text()
    built.edit("src/their_method.py", '"""Half of every mean."""', '"""Half of each mean."""  # shrinks')
    assert built.planned() == set()
    built.edit("src/their_method.py", "0.5", "0.25")
    assert built.planned() == OWN | shown
