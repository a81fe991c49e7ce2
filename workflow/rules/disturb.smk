"""What noise on the tensors that its clients share costs a trained run.

Needs: a run on a panel, its panel and partition.
Makes: noisy.parquet in the run's folder, rows in the schema of metrics.parquet, for the runs of those artifacts that
    show them.
"""


rule disturb:
    input:
        unpack(lambda w: PLAN.inputs(w.dataset)),
        weights=f"{RUN}/weights.safetensors",
        snapshots=f"{RUN}/snapshots.safetensors",
        run=f"{RUN}/run.json",
    output:
        f"{RUN}/noisy.parquet",
    log:
        "results/logs/disturb/{scale}/{dataset}/{method}/{variant}/seed{seed}.log",
    benchmark:
        "results/benchmarks/disturb/{scale}/{dataset}/{method}/{variant}/seed{seed}.tsv"
    threads: PLAN.threads
    resources:
        device=SETTINGS.device,
        gpu=SETTINGS.gpus,
        gpu_memory_mb=0,
    params:
        settings=lambda w: as_text(PLAN.settings_of("noisy", w)),
        code=lambda w: digest("disturb", *plugged(PLAN.spec(w))),
        data=lambda w: PLAN.data_folder(w.dataset),
        partition=subpath(input.partition_partition, parent=True),
        run=subpath(input.run, parent=True),
    message:
        "disturb {wildcards.method}/{wildcards.variant} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "python scripts/disturb.py --settings {params.settings:q} --run {params.run} --data {params.data}"
        " --partition {params.partition} --device {resources.device}"
        " --gpu-memory-mb {resources.gpu_memory_mb} 2> {log}"
