"""A run's errors on the test part; all of a study's in one file, for users.

Needs: a run, its data and partition, the truth where it is known, and the datasets that evaluation reads beside them.
Makes: what every run on trajectories is measured against, once for all of them;
    metrics.parquet (one number a row, with what it is a number of) and diagnostics.safetensors in the run's folder;
    results/{study}/metrics.parquet, which no rule reads.
"""


localrules:
    metrics,


rule yardsticks:
    input:
        unpack(lambda w: PLAN.inputs(w.dataset)),
    output:
        **YARDSTICKS.paths,
    log:
        "results/logs/yardsticks/{dataset}/seed{seed}.log",
    benchmark:
        "results/benchmarks/yardsticks/{dataset}/seed{seed}.tsv"
    wildcard_constraints:
        dataset=PLAN.of_family("trajectory"),
    params:
        code=digest("yardsticks"),
        data=lambda w: PLAN.data_folder(w.dataset),
        partition=subpath(input.partition_partition, parent=True),
        out=subpath(output.rows, parent=True),
    message:
        "yardsticks of {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "python scripts/yardsticks.py --data {params.data} --partition {params.partition} --seed {wildcards.seed}"
        " --out {params.out} 2> {log}"


rule evaluate:
    input:
        unpack(lambda w: PLAN.judged_by(w.dataset, w.seed)),
        weights=f"{RUN}/weights.safetensors",
        snapshots=f"{RUN}/snapshots.safetensors",
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
        gpu=SETTINGS.gpus,
        gpu_memory_mb=0,
    params:
        code=lambda w: digest("evaluate", evaluated_by(PLAN.spec(w)), *plugged(PLAN.spec(w))),
        data=lambda w: PLAN.data_folder(w.dataset),
        partition=subpath(input.partition_partition, parent=True),
        judged_by=lambda w: PLAN.judged_by_arguments(w.dataset, w.seed),
        run=subpath(input.run, parent=True),
    message:
        "evaluate {wildcards.method}/{wildcards.variant} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "python scripts/evaluate.py --run {params.run} --data {params.data} --partition {params.partition}"
        " {params.judged_by} --device {resources.device}"
        " --gpu-memory-mb {resources.gpu_memory_mb} 2> {log}"


rule metrics:
    input:
        lambda w: PLAN.study_metrics(w.study),
    output:
        "results/{study}/metrics.parquet",
    log:
        "results/logs/metrics/{study}.log",
    params:
        files=lambda w: PLAN.study_metrics(w.study),
        code=digest("metrics"),
    message:
        "{output}"
    shell:
        "python scripts/metrics.py --files {params.files:q} --out {output} 2> {log}"
