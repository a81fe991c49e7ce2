"""A run's errors on the test part.

Needs: a run, its panel and partition.
Makes: metrics.parquet (one number a row, with what it is a number of) and diagnostics.safetensors in the run's folder.
"""


rule evaluate:
    input:
        **PANEL,
        **PARTITION,
        weights=f"{RUN}/weights.safetensors",
        rounds=f"{RUN}/rounds.parquet",
        run=f"{RUN}/run.json",
    output:
        metrics=f"{RUN}/metrics.parquet",
        diagnostics=f"{RUN}/diagnostics.safetensors",
    log:
        "results/logs/evaluate/{scale}/{dataset}/{method}/{variant}/seed{seed}.log",
    benchmark:
        "results/benchmarks/evaluate/{scale}/{dataset}/{method}/{variant}/seed{seed}.tsv"
    threads: PLAN.threads
    resources:
        device=SETTINGS.device,
    params:
        code=lambda w: digest("evaluate", *plugged(PLAN.spec(w))),
        panel=subpath(input.values, parent=True),
        partition=subpath(input.clients, parent=True),
        run=subpath(input.run, parent=True),
    message:
        "evaluate {wildcards.method}/{wildcards.variant} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "python scripts/evaluate.py --run {params.run} --panel {params.panel} --partition {params.partition}"
        " --device {resources.device} 2> {log}"
