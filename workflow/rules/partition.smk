"""Who owns which rows.

Needs: a panel.
Makes: results/data/{dataset}/partition/: clients with their scalers, windows of every part, settings.
"""


rule partition:
    input:
        **PANEL,
    output:
        **PARTITION,
    log:
        "results/logs/partition/{dataset}.log",
    params:
        settings=lambda w: PLAN.datasets[w.dataset].partition_section(),
        code=digest("partition"),
        panel=subpath(input.values, parent=True),
        out=subpath(output.clients, parent=True),
    message:
        "partition of {wildcards.dataset}"
    shell:
        "python scripts/partition.py --config {params.settings:q} --panel {params.panel} --out {params.out} 2> {log}"
