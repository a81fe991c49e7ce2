# Needs Python 3.11 or newer with pip. Everything else goes into .venv, in the versions of requirements.lock.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: run resume smoke report archive test test-all slurm-test lint bench bench-gpu probe
.DEFAULT_GOAL := run

run: $(READY)  ## the pipeline that config/config.yaml asks for
	$(BIN)/snakemake --cores all
	@echo "The report: $(CURDIR)/results/report.html"

resume: $(READY)  ## the same after a crash or power cut that left Snakemake's lock; nothing else may run here
	$(BIN)/snakemake --unlock
	$(MAKE) run

smoke: $(READY)  ## one method, one seed, one table
	$(BIN)/snakemake --cores all --config scale=smoke -- results/atlas/table1.md

report: $(READY)  ## both reports: ours, and Snakemake's own with the provenance of every artifact
	$(BIN)/snakemake --cores all
	$(BIN)/snakemake --report results/snakemake-report.zip
	@echo "The reports: $(CURDIR)/results/report.html and $(CURDIR)/results/snakemake-report.zip"

archive: report  ## the finished run in one file: settings, versions, tables, figures, metrics, logs, provenance; no data, no weights
	tar -czf fedloom-results.tar.gz --exclude=results/raw --exclude=results/data --exclude=results/state \
	  --exclude='*.safetensors' --exclude=__pycache__ --exclude='*.egg-info' CITATION.cff LICENSE Makefile README.md Snakefile \
	  config profiles pyproject.toml requirements.lock scripts src workflow results
	@echo "The archive: $(CURDIR)/fedloom-results.tar.gz"

test: $(READY)
	$(BIN)/python -m pytest -m "not slow" --numprocesses 2 --dist loadfile

test-all: $(READY)
	$(BIN)/python -m pytest

slurm-test: $(READY)  ## a study through a Slurm of its own; installs that where it can (root, apt-get)
	$(BIN)/python tests/slurm/cluster.py install
	$(BIN)/python -m pytest tests/slurm

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/python workflow/lint.py
	$(BIN)/mypy

bench: .venv-bench/ready  ## how fast training is beside a plain loop, pfl and Flower: results/bench (BENCH="throughput --clients 10" for less)
	.venv-bench/bin/python -m bench $(BENCH)

bench-gpu:  ## the like on a CUDA device, and all tests for one; from src, with what PYTHON has installed
	PYTHONPATH=src:. $(PYTHON) -m bench throughput ceiling --device cuda --peers loop --clients 207 --batches 256 --repeats 2
	PYTHONPATH=src:. $(PYTHON) -m pytest --noconftest -m gpu $$(grep -rl --include='*.py' mark.gpu tests)

probe: $(READY)  ## what the paper scale costs, a step of every method on every dataset's shape: docs/paper-scale.md
	$(BIN)/python -m bench.probe

# The peers contradict the lock file: an environment of their own, with the lock file's versions of what trains.
.venv-bench/ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv-bench
	grep -E '^(torch|numpy|scipy|pandas|pyarrow|safetensors)==' requirements.lock > .venv-bench/constraints.txt
	.venv-bench/bin/python -m pip install --quiet --constraint .venv-bench/constraints.txt --editable '.[bench]'
	.venv-bench/bin/python -m pip install --quiet --no-deps pfl==0.6.0
	@touch $@

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "fedloom needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
