"""Who owns which rows.

Needs: a panel, or trajectories, or series and the held-out targets that these must not hold.
Makes: results/data/{dataset}/partition/: clients, which windows or sequences are theirs in every part,
    scales from training rows, settings.
"""


rule partition:
    input:
        **PANEL,
    output:
        **PARTITION,
    log:
        "results/logs/partition/{dataset}.log",
    wildcard_constraints:
        dataset=PLAN.of_family("forecast"),
    params:
        settings=lambda w: PLAN.datasets[w.dataset].partition_section(),
        code=digest("partition"),
        panel=subpath(input.values, parent=True),
        out=subpath(output.clients, parent=True),
    message:
        "partition of {wildcards.dataset}"
    shell:
        "python scripts/partition.py --config {params.settings:q} --panel {params.panel} --out {params.out} 2> {log}"


rule deal:
    input:
        **TRAJECTORIES,
    output:
        **DEAL,
    log:
        "results/logs/deal/{dataset}.log",
    wildcard_constraints:
        dataset=PLAN.of_family("trajectory"),
    params:
        settings=lambda w: PLAN.datasets[w.dataset].partition_section(),
        code=digest("deal"),
        trajectories=subpath(input.about, parent=True),
        out=subpath(output.clients, parent=True),
    message:
        "deal the trajectories of {wildcards.dataset} to clients"
    shell:
        "python scripts/deal.py --config {params.settings:q} --trajectories {params.trajectories} --out {params.out}"
        " 2> {log}"


rule cut:
    input:
        **SERIES,
        targets=lambda w: PLAN.target_files(w.dataset),
    output:
        **CUT,
    log:
        "results/logs/cut/{dataset}.log",
    wildcard_constraints:
        dataset=PLAN.of_family("series"),
    params:
        settings=lambda w: PLAN.datasets[w.dataset].partition_section(),
        targets=lambda w: PLAN.target_arguments(w.dataset),
        code=digest("cut"),
        series=subpath(input.about, parent=True),
        out=subpath(output.clients, parent=True),
    message:
        "cut the series of {wildcards.dataset} into windows"
    shell:
        "python scripts/cut.py --config {params.settings:q} --series {params.series} {params.targets}"
        " --out {params.out} 2> {log}"
