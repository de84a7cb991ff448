# Two commands are the whole set-up on a fresh machine: `make demo` and `make test`. Both build .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test thorough lint long docs bench integration clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[all,dev]"
	touch $@

demo: $(STAMP)  ## plan a built-in example, draw it, commit a ledger to it, verify it; train digits privately and verify that
	mkdir -p out
	rm -f out/demo.ledger
	$(BIN)/discreet plan --preset dpal-cifar10 --plot out/plan.png --out out/plan.toml
	$(BIN)/discreet ledger create out/demo.ledger --plan out/plan.toml
	$(BIN)/discreet ledger export out/demo.ledger --out out/certificate.json
	$(BIN)/discreet verify out/certificate.json --ledger out/demo.ledger
	$(BIN)/python examples/train_digits.py out
	$(BIN)/discreet verify out/digits-certificate.json
	@echo "Drawn: out/plan.png. Stored: out/plan.toml, out/demo.ledger, out/certificate.json, out/digits-certificate.json."

test: $(STAMP)  ## everything quick; under five minutes on two cores
	$(BIN)/pytest -n 2 --dist worksteal -m "not long and not integration and not thorough"

thorough: $(STAMP)  ## attacks, kills, fuzzing and statistics: some minutes more
	$(BIN)/pytest -n 2 --dist worksteal -m "thorough and not integration"

integration: $(STAMP)  ## the installed wheel, in an environment of its own
	$(BIN)/pytest -m integration

lint: $(STAMP)  ## style, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

long: $(STAMP)  ## minutes to hours; run by hand, results committed
	$(BIN)/pytest -n 2 -m "long"

docs: $(STAMP)  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(STAMP)  ## speed, as ratios; writes benchmarks/results/
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
	$(BIN)/python benchmarks/ledger_and_noise.py
	$(BIN)/python benchmarks/planning.py
	$(BIN)/python benchmarks/dp_sgd.py
	$(BIN)/python benchmarks/scoring.py
	$(BIN)/python benchmarks/selection.py

clean:
	rm -rf $(VENV) site out .pytest_cache .mypy_cache .ruff_cache .hypothesis
