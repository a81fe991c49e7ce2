"""One federation, trained.

Needs: a dataset's panel or trajectories, their partition, the run's spec; the run that it starts from, where it does.
Makes: results/runs/{scale}/{dataset}/{method}/{variant}/seed{seed}/: weights of the selected and of the last round, of
    further rounds where the protocol keeps them, what every round logged, the spec with its verdict; outside identity
    the timing and the environment.
    What a killed training needs to go on lies in results/state and is no output.
"""


rule train:
    input:
        unpack(lambda w: PLAN.inputs(w.dataset)),
        unpack(PLAN.source_files),
    output:
        weights=f"{RUN}/weights.safetensors",
        snapshots=f"{RUN}/snapshots.safetensors",
        rounds=f"{RUN}/rounds.parquet",
        run=f"{RUN}/run.json",
        timing=f"{RUN}/timing.parquet",
        environment=f"{RUN}/environment.json",
    log:
        "results/logs/train/{scale}/{dataset}/{method}/{variant}/seed{seed}.log",
    benchmark:
        "results/benchmarks/train/{scale}/{dataset}/{method}/{variant}/seed{seed}.tsv"
    threads: PLAN.threads
    resources:
        device=SETTINGS.device,
        gpu=SETTINGS.gpus,
        gpu_memory_mb=0,
    params:
        spec=lambda w: as_text(PLAN.spec(w)),
        code=lambda w: digest("train", *plugged(PLAN.spec(w))),
        data=lambda w: PLAN.data_folder(w.dataset),
        partition=subpath(input.partition_partition, parent=True),
        out=subpath(output.run, parent=True),
        state=STATE,
        start=PLAN.source_argument,
    message:
        "train {wildcards.method}/{wildcards.variant} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "python scripts/train.py --spec {params.spec:q} --digest {params.code} --data {params.data}"
        " --partition {params.partition} --out {params.out} --device {resources.device}"
        " --gpu-memory-mb {resources.gpu_memory_mb}"
        " --state {params.state} {params.start} 2> {log}"
