"""Who owns which rows.

Needs: a panel, or trajectories, or series and the held-out targets that these must not hold.
Makes: results/data/{dataset}/partition/: clients, which windows or sequences are theirs in every part,
    scales from training rows, settings.
"""


rule partition_panel:
    input:
        **PANEL.paths,
    output:
        **PANEL_PARTITION.paths,
    log:
        "results/logs/partition/{dataset}.log",
    wildcard_constraints:
        dataset=PLAN.of_family("forecast"),
    params:
        settings=lambda w: PLAN.datasets[w.dataset].settings("partition"),
        code=digest("partition_panel"),
        panel=subpath(input.values, parent=True),
        out=subpath(output.clients, parent=True),
    message:
        "partition of {wildcards.dataset}"
    shell:
        "python scripts/partition_panel.py --config {params.settings:q} --panel {params.panel} --out {params.out} 2> {log}"


rule partition_trajectories:
    input:
        **TRAJECTORIES.paths,
    output:
        **TRAJECTORY_PARTITION.paths,
    log:
        "results/logs/partition/{dataset}.log",
    wildcard_constraints:
        dataset=PLAN.of_family("trajectory"),
    params:
        settings=lambda w: PLAN.datasets[w.dataset].settings("partition"),
        code=digest("partition_trajectories"),
        trajectories=subpath(input.about, parent=True),
        out=subpath(output.clients, parent=True),
    message:
        "partition of {wildcards.dataset}"
    shell:
        "python scripts/partition_trajectories.py --config {params.settings:q} --trajectories {params.trajectories}"
        " --out {params.out} 2> {log}"


rule partition_series:
    input:
        **SERIES.paths,
        targets=lambda w: PLAN.role_files(w.dataset, "targets"),
    output:
        **SERIES_PARTITION.paths,
    log:
        "results/logs/partition/{dataset}.log",
    wildcard_constraints:
        dataset=PLAN.of_family("series"),
    params:
        settings=lambda w: PLAN.datasets[w.dataset].settings("partition"),
        targets=lambda w: PLAN.role_arguments(w.dataset, "targets"),
        code=digest("partition_series"),
        series=subpath(input.about, parent=True),
        out=subpath(output.clients, parent=True),
    message:
        "partition of {wildcards.dataset}"
    shell:
        "python scripts/partition_series.py --config {params.settings:q} --series {params.series} {params.targets}"
        " --out {params.out} 2> {log}"
