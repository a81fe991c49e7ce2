"""Raw data and panels.

Needs: config/datasets/{dataset}.yaml; for datasets with raw files the network or a mirror.
Makes: results/raw/{dataset}/{key} with {key}.json (where the bytes came from and their hash), and
    results/data/{dataset}/panel/: readings, nodes, edges, covariates, planted truth, and what was repaired.
"""


rule fetch:
    input:
        lambda w: [form.path for form in PLAN.datasets[w.dataset].files[w.key].forms if form.path],
    output:
        raw="results/raw/{dataset}/{key}",
        origin="results/raw/{dataset}/{key}.json",
    log:
        "results/logs/fetch/{dataset}/{key}.log",
    retries: 3
    resources:
        mirror=f"--mirror {shlex.quote(SETTINGS.mirror)}" if SETTINGS.mirror else "",
    params:
        source=lambda w: PLAN.datasets[w.dataset].fetch_section(w.key),
        code=digest("fetch"),
    message:
        "fetch {wildcards.key} of {wildcards.dataset}"
    shell:
        "python scripts/fetch.py --config {params.source:q} --name {wildcards.dataset}/{wildcards.key}"
        " --lock config/datasets/lock.json {resources.mirror} --out {output.raw} 2> {log}"


rule panel:
    input:
        lambda w: expand("results/raw/{{dataset}}/{key}{part}", key=PLAN.datasets[w.dataset].files, part=["", ".json"]),
    output:
        **PANEL,
    log:
        "results/logs/panel/{dataset}.log",
    benchmark:
        "results/benchmarks/panel/{dataset}.tsv"
    params:
        settings=lambda w: PLAN.datasets[w.dataset].panel_section(),
        code=digest("panel"),
        out=subpath(output.values, parent=True),
    message:
        "panel of {wildcards.dataset}"
    shell:
        "python scripts/panel.py --config {params.settings:q} --raw results/raw/{wildcards.dataset}"
        " --out {params.out} 2> {log}"
