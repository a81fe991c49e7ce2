"""Tables, figures, claims and the page.

Needs: metrics and diagnostics of exactly the runs that an artifact shows, their data, the published numbers, names;
    for claims all runs of a study.
Makes: results/{study}/{table}.csv, .md, .tex, results/{study}/{figure}.pdf, .png, results/{study}/claims.* and
    contradictions.*, results/claims.md over all studies, and results/report.html with its own tables in
    results/report/.
"""


# Seconds each: a submission would take longer.
localrules:
    table,
    figure,
    claims,
    claims_page,
    page,


rule table:
    input:
        runs=lambda w: PLAN.artifact(w.study, w.table).run_files,
        panels=lambda w: PLAN.artifact(w.study, w.table).panel_files,
        reference=lambda w: PLAN.artifact(w.study, w.table).references,
        names=NAMES,
    output:
        csv="results/{study}/{table}.csv",
        md=report(
            "results/{study}/{table}.md",
            category="{study}",
            labels={"artifact": "{table}"},
        ),
        tex="results/{study}/{table}.tex",
    log:
        "results/logs/table/{study}/{table}.log",
    params:
        shown=lambda w: PLAN.artifact(w.study, w.table).arguments,
        code=lambda w: digest("table", PLAN.artifact(w.study, w.table).drawing.module),
        stem=subpath(output.csv, strip_suffix=".csv"),
    message:
        "{wildcards.study}/{wildcards.table}"
    shell:
        "python scripts/table.py --study {wildcards.study} --name {wildcards.table} {params.shown:q} --out {params.stem}"
        " 2> {log}"


rule figure:
    input:
        runs=lambda w: PLAN.artifact(w.study, w.figure).run_files,
        panels=lambda w: PLAN.artifact(w.study, w.figure).panel_files,
        reference=lambda w: PLAN.artifact(w.study, w.figure).references,
        names=NAMES,
    output:
        pdf="results/{study}/{figure}.pdf",
        png=report(
            "results/{study}/{figure}.png",
            category="{study}",
            labels={"artifact": "{figure}"},
        ),
    log:
        "results/logs/figure/{study}/{figure}.log",
    params:
        shown=lambda w: PLAN.artifact(w.study, w.figure).arguments,
        code=lambda w: digest("figure", PLAN.artifact(w.study, w.figure).drawing.module),
        stem=subpath(output.pdf, strip_suffix=".pdf"),
    message:
        "{wildcards.study}/{wildcards.figure}"
    shell:
        "python scripts/figure.py --study {wildcards.study} --name {wildcards.figure} {params.shown:q}"
        " --out {params.stem} 2> {log}"


rule claims:
    input:
        metrics=lambda w: PLAN.study_metrics(w.study),
        runs=lambda w: CLAIMS.run_files(w.study),
        config=lambda w: CLAIMS.config_files(w.study),
    output:
        csv="results/{study}/claims.csv",
        md=report("results/{study}/claims.md", category="{study}", labels={"artifact": "claims"}),
        tex="results/{study}/claims.tex",
        against_csv="results/{study}/contradictions.csv",
        against_md=report(
            "results/{study}/contradictions.md", category="{study}", labels={"artifact": "contradictions"}
        ),
        against_tex="results/{study}/contradictions.tex",
    log:
        "results/logs/claims/{study}.log",
    wildcard_constraints:
        study=CLAIMS.constraint,
    params:
        asked=lambda w: CLAIMS.arguments(w.study),
        code=digest("claims"),
        out=subpath(output.csv, parent=True),
    message:
        "{wildcards.study}/claims"
    shell:
        "python scripts/claims.py {params.asked:q} --out {params.out} 2> {log}"


rule claims_page:
    input:
        CLAIMS.files,
    output:
        "results/claims.md",
    log:
        "results/logs/claims.log",
    params:
        asked=CLAIMS.page_arguments,
        code=digest("claims_page"),
    message:
        "{output}"
    shell:
        "python scripts/claims_page.py {params.asked:q} --out {output} 2> {log}"


rule page:
    input:
        PLAN.page_files,
        CLAIMS.files,
    output:
        html="results/report.html",
        tables=directory("results/report"),
    log:
        "results/logs/page.log",
    params:
        shown=PLAN.page_arguments,
        claims=CLAIMS.all_stems,
        code=digest("page"),
    message:
        "{output.html}"
    shell:
        "python scripts/page.py {params.shown:q} --claims {params.claims:q} --out {output.html} 2> {log}"
