"""How methods, variants, datasets and metrics are called in print, and in which group a table lists a method.

A name that is not listed here, such as one that a plug-in brings, is printed as it is.
"""

from __future__ import annotations

CENTRALISED, GENERAL, SPATIAL, CAUSAL, SERIES, REFERENCE = (
    "Centralised",
    "General federated",
    "Federated spatio-temporal",
    "Federated causal",
    "Federated foundation models",
    "Reference, no federation",
)
FEDERATED = (GENERAL, SPATIAL)

METHODS: dict[str, tuple[str, str]] = {
    "dcrnn": ("DCRNN", CENTRALISED),
    "gwnet": ("GWNet", CENTRALISED),
    "stid": ("STID", CENTRALISED),
    "cast": ("CaST", CENTRALISED),
    "stdn": ("STDN", CENTRALISED),
    "fast": ("FaST", CENTRALISED),
    "fedavg": ("FedAvg", GENERAL),
    "fedprox": ("FedProx", GENERAL),
    "fedper": ("FedPer", GENERAL),
    "fedgru": ("FedGRU", SPATIAL),
    "fedgtp": ("FedGTP", SPATIAL),
    "cnfgnn": ("CNFGNN", SPATIAL),
    "fuels": ("Fuels", SPATIAL),
    "feddis": ("FedDis", SPATIAL),
    "sc_fsgl": ("SC-FSGL", SPATIAL),
    "atlas": ("Atlas", SPATIAL),
    "fed_causaldiff": ("Fed-CausalDiff", CAUSAL),
    "fedal": ("FeDaL", SERIES),
    "ffts": ("FFTS", SERIES),
    "centralised": ("Centralised", CENTRALISED),
    "standalone": ("Standalone", REFERENCE),
    "central_lstm": ("Central LSTM", CENTRALISED),
    "split_vfl": ("SplitVFL", SPATIAL),
    "st_split_vfl": ("ST-SplitVFL", SPATIAL),
    "local_lstm": ("Local LSTM", REFERENCE),
    "local": ("Local", REFERENCE),
    "persistence": ("Persistence", REFERENCE),
    "weekly_profile": ("Weekly profile", REFERENCE),
}
"""Name -> label and group, in the order of a table (the order of the papers)."""

VARIANTS = {
    "A.1": "no aggregation",
    "A.2": "encoder shared too",
    "A.3": "encoder and decoder shared too",
    "A.4": "no alignment",
    "A.5": "hard assignment",
    "A.6": "dominant prototype only",
    "A.1s": "no aggregation, one start for all",
    "A.4prime": "no alignment, independent starts",
    "FR": "frozen random codebook",
    "residual": "decoder sees z too",
    "full_sync": "everything is shared",
    "no_dis": "no disentangling loss",
}
"""Variant -> what it changes."""

VARIANT_NAMES = {
    "A.4prime": "A.4′",
    "residual": "Residual",
    "full_sync": "w/o DSS",
    "no_dis": "w/o Ldis",
    "wide": "Wide encoder",
    "compact": "Compact encoder",
}
DATASETS = {
    "metr-la": "METR-LA",
    "pems-bay": "PEMS-BAY",
    "pems03": "PEMS03",
    "pems04": "PEMS04",
    "pems08": "PEMS08",
    "knowair": "KnowAir",
    "regimes": "regimes (generated)",
    "porto": "Porto",
    "hexagon-trips": "trips by hexagon (generated)",
    "hexagon-trips-16": "trips by hexagon, 16 cells (generated)",
    "hexagon-trips-8": "trips by hexagon, 8 cells (generated)",
    "areas": "crowd areas (generated)",
    "dkt-synth": "DKT-Synth",
    "dkt-synth-small": "DKT-Synth, small",
    "dkt-synth-alpha1": "DKT-Synth, less even",
    "dkt-synth-alpha01": "DKT-Synth, least even",
    "dkt-synth-sites": "DKT-Synth, outcomes by site",
    "dkt-synth-hidden": "DKT-Synth, hidden confounder",
    "statics2011": "Statics2011",
    "statics2011-items": "Statics2011 (items)",
    "diabetes130": "Diabetes-130",
    "diabetes130-paper": "Diabetes-130 (unlagged)",
    "openbandit-random": "Open Bandit (uniform log)",
    "openbandit-bts": "Open Bandit (Thompson log)",
}
FEDERATIONS = {
    "real16": "Real",
    "real16-long": "Real (longer windows)",
    "h1-like": "H1-like",
    "h2-like": "H2-like",
    "domain": "By domain",
    "mixed": "Mixed (dealt IID)",
    "wheels": "Wheels",
    "tsgen": "Generated",
    "tsgen-4": "Generated, 4 clients",
    "tsgen-8": "Generated, 8 clients",
}
"""Federations of series: made of many sets, parts of some of them, which notes and the page say."""

METRICS = {"mse": "MSE", "mae": "MAE", "rmse": "RMSE", "mape": "MAPE", "nmi": "NMI"}


def method_label(method: str) -> str:
    """Return the method's name in print."""
    return METHODS.get(method, (method, ""))[0]


def method_group(method: str) -> str:
    """Return the group of a method; one that is not listed counts as a general federated one."""
    return METHODS.get(method, ("", GENERAL))[1]


def run_label(method: str, variant: str) -> str:
    """Return the name of a method's variant in print, e.g. ``A.5, hard assignment``."""
    if variant == "base":
        return method_label(method)
    name = VARIANT_NAMES.get(variant, variant)
    return f"{name}, {VARIANTS[variant]}" if variant in VARIANTS else name


def order(method: str, variant: str = "base") -> tuple[int, int, str, str]:
    """Return the place of a method's variant in a table: listed ones as listed, then others by name."""
    methods, variants = list(METHODS), list(dict.fromkeys(["base", *VARIANTS, *VARIANT_NAMES]))
    place = methods.index(method) if method in methods else len(methods)
    part = variants.index(variant) if variant in variants else len(variants)
    return place, part, method, variant


def dataset_label(dataset: str, part: str | None) -> str:
    """Return a dataset's name in print; a part of a dataset is named as the part that it is."""
    if dataset in FEDERATIONS:
        return FEDERATIONS[dataset]
    return part if part else DATASETS.get(dataset, dataset)
