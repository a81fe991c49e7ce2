"""Raw data, panels, trajectories and series.

Needs: config/datasets/{dataset}.yaml; for datasets with raw files the network or a mirror.
Makes: results/raw/{dataset}/{key} with {key}.json (where the bytes came from and their hash), and
    results/data/{dataset}/panel/: readings, nodes, edges, covariates, planted truth, and what was repaired;
    or results/data/{dataset}/trajectories/ and, for generated ones, results/data/{dataset}/truth/;
    or results/data/{dataset}/series/.
"""


# Machines that compute may have no network.
localrules:
    fetch,


rule fetch:
    input:
        lambda w: PLAN.datasets[w.dataset].own_files(w.key),
    output:
        raw="results/raw/{dataset}/{key}",
        origin="results/raw/{dataset}/{key}.json",
    log:
        "results/logs/fetch/{dataset}/{key}.log",
    retries: 3
    resources:
        mirror=f"--mirror {shlex.quote(SETTINGS.mirror)}" if SETTINGS.mirror else "",
    params:
        source=lambda w: PLAN.datasets[w.dataset].fetch_section(w.key),
        code=digest("fetch"),
    message:
        "fetch {wildcards.key} of {wildcards.dataset}"
    shell:
        "python scripts/fetch.py --config {params.source:q} --name {wildcards.dataset}/{wildcards.key}"
        " --lock config/datasets/lock.json {resources.mirror} --out {output.raw} 2> {log}"


rule panel:
    input:
        lambda w: PLAN.raw_files(w.dataset),
    output:
        **PANEL.paths,
    log:
        "results/logs/panel/{dataset}.log",
    benchmark:
        "results/benchmarks/panel/{dataset}.tsv"
    wildcard_constraints:
        dataset=PLAN.of_family("forecast"),
    params:
        settings=lambda w: PLAN.datasets[w.dataset].settings("panel"),
        code=digest("panel"),
        out=subpath(output.values, parent=True),
    message:
        "panel of {wildcards.dataset}"
    shell:
        "python scripts/panel.py --config {params.settings:q} --raw results/raw/{wildcards.dataset}"
        " --out {params.out} 2> {log}"


rule trajectories:
    input:
        lambda w: PLAN.raw_files(w.dataset),
    output:
        **TRAJECTORIES.paths,
    log:
        "results/logs/trajectories/{dataset}.log",
    benchmark:
        "results/benchmarks/trajectories/{dataset}.tsv"
    wildcard_constraints:
        dataset=PLAN.of_family("trajectory"),
    params:
        settings=lambda w: PLAN.datasets[w.dataset].settings("trajectories"),
        code=digest("trajectories"),
        out=subpath(output.about, parent=True),
    message:
        "trajectories of {wildcards.dataset}"
    shell:
        "python scripts/trajectories.py --config {params.settings:q} --raw results/raw/{wildcards.dataset}"
        " --out {params.out} 2> {log}"


rule series:
    input:
        lambda w: PLAN.raw_files(w.dataset),
    output:
        **SERIES.paths,
    log:
        "results/logs/series/{dataset}.log",
    benchmark:
        "results/benchmarks/series/{dataset}.tsv"
    wildcard_constraints:
        dataset=PLAN.of_family("series"),
    params:
        settings=lambda w: PLAN.datasets[w.dataset].settings("series"),
        other=lambda w: PLAN.built_from_arguments(w.dataset),
        code=digest("series"),
        out=subpath(output.about, parent=True),
    message:
        "series of {wildcards.dataset}"
    shell:
        "python scripts/series.py --config {params.settings:q} --raw results/raw/{wildcards.dataset} {params.other}"
        " --out {params.out} 2> {log}"


rule truth:
    input:
        **TRAJECTORIES.paths,
    output:
        **TRUTH.paths,
    log:
        "results/logs/truth/{dataset}.log",
    benchmark:
        "results/benchmarks/truth/{dataset}.tsv"
    params:
        settings=lambda w: PLAN.datasets[w.dataset].settings("truth"),
        generated=lambda w: PLAN.datasets[w.dataset].settings("trajectories"),
        code=digest("truth"),
        trajectories=subpath(input.about, parent=True),
        out=subpath(output.settings, parent=True),
    message:
        "truth of {wildcards.dataset}"
    shell:
        "python scripts/truth.py --config {params.settings:q} --generated {params.generated:q}"
        " --trajectories {params.trajectories} --out {params.out} 2> {log}"
