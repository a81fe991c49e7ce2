"""The simulation behind Proposition 1 of Atlas, on the panel of a run.

Needs: a panel, its partition, the record of a run on it.
Makes: leakage.parquet in the run's folder, rows in the schema of metrics.parquet, for the runs of those artifacts that
    show them. Of the run it takes the seed alone.
"""


rule confound:
    input:
        unpack(lambda w: PLAN.inputs(w.dataset)),
        run=f"{RUN}/run.json",
    output:
        f"{RUN}/leakage.parquet",
    log:
        "results/logs/confound/{scale}/{dataset}/{method}/{variant}/seed{seed}.log",
    benchmark:
        "results/benchmarks/confound/{scale}/{dataset}/{method}/{variant}/seed{seed}.tsv"
    params:
        settings=lambda w: as_text(PLAN.settings_of("leakage", w)),
        code=digest("confound"),
        data=lambda w: PLAN.data_folder(w.dataset),
        partition=subpath(input.partition_partition, parent=True),
        run=subpath(input.run, parent=True),
    message:
        "simulate confounding on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "python scripts/confound.py --settings {params.settings:q} --run {params.run} --data {params.data}"
        " --partition {params.partition} 2> {log}"
