"""A run's errors on the test part.

Needs: a run, its panel and partition.
Makes: metrics.parquet (one number a row, with what it is a number of) and diagnostics.safetensors in the run's folder.
"""


rule evaluate:
    input:
        unpack(lambda w: PLAN.inputs(w.dataset, truth=True)),
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
        code=lambda w: digest("evaluate", evaluated_by(PLAN.spec(w)), *plugged(PLAN.spec(w))),
        data=lambda w: PLAN.data_folder(w.dataset),
        partition=subpath(input.partition_partition, parent=True),
        truth=lambda w: PLAN.truth_arguments(w.dataset),
        run=subpath(input.run, parent=True),
    message:
        "evaluate {wildcards.method}/{wildcards.variant} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "python scripts/evaluate.py --run {params.run} --data {params.data} --partition {params.partition} {params.truth}"
        " --device {resources.device} 2> {log}"
