"""Tables, figures and the page.

Needs: metrics and diagnostics of exactly the runs that an artifact shows, their data, the published numbers, names.
Makes: results/{study}/{table}.csv, .md, .tex, results/{study}/{figure}.pdf, .png, and results/report.html.
"""


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


rule page:
    input:
        PLAN.page_files,
    output:
        "results/report.html",
    log:
        "results/logs/page.log",
    params:
        shown=PLAN.page_arguments,
        code=digest("page"),
    message:
        "{output}"
    shell:
        "python scripts/page.py {params.shown:q} --out {output} 2> {log}"
