"""What a run's model does after one epoch on each held-out set.

Needs: a run on series, its data and partition, the held-out sets beside them.
Makes: adapted.parquet in the run's folder, rows in the schema of metrics.parquet, for the runs of those artifacts that
    show them.
"""


rule adapt:
    input:
        unpack(lambda w: PLAN.inputs(w.dataset, beside=True)),
        weights=f"{RUN}/weights.safetensors",
        snapshots=f"{RUN}/snapshots.safetensors",
        run=f"{RUN}/run.json",
    output:
        f"{RUN}/adapted.parquet",
    log:
        "results/logs/adapt/{scale}/{dataset}/{method}/{variant}/seed{seed}.log",
    benchmark:
        "results/benchmarks/adapt/{scale}/{dataset}/{method}/{variant}/seed{seed}.tsv"
    threads: PLAN.threads
    resources:
        device=SETTINGS.device,
        gpu=SETTINGS.gpus,
        gpu_memory_mb=0,
    params:
        settings=lambda w: as_text(PLAN.settings_of("adapted", w)),
        code=lambda w: digest("adapt", *plugged(PLAN.spec(w))),
        data=lambda w: PLAN.data_folder(w.dataset),
        partition=subpath(input.partition_partition, parent=True),
        beside=lambda w: PLAN.beside_arguments(w.dataset),
        run=subpath(input.run, parent=True),
    message:
        "adapt {wildcards.method}/{wildcards.variant} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "python scripts/adapt.py --settings {params.settings:q} --run {params.run} --data {params.data}"
        " --partition {params.partition} {params.beside} --device {resources.device}"
        " --gpu-memory-mb {resources.gpu_memory_mb} 2> {log}"
