# Two commands are the whole set-up on a fresh machine: `make demo` and `make test`. Both build .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test thorough lint long docs bench integration label-studio clean

$(STAMP): pyproject.toml research/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[all,dev]" -e ./research
	touch $@

demo: $(STAMP)  ## two whole campaigns on digits: chosen privately, drawn uniformly at random; killed, it goes on; and their plan, drawn
	mkdir -p out
	$(BIN)/discreet plan --epsilon 8 --delta 1e-5 --initial 150 --queries 60x3 --batch 150 --epochs 20 \
		--selection-epsilon 2 --threshold-epsilon 0.1 --accountant rdp --plot out/plan.png
	$(BIN)/python examples/demo.py out
	$(BIN)/discreet verify out/demo-certificate.json
	@echo "Drawn: out/plan.png. Stored: out/demo.db (both campaigns), out/demo-certificate.json, out/demo.json."

test: $(STAMP)  ## everything quick; under four minutes on two cores
	$(BIN)/pytest -n 2 --dist worksteal -m "not long and not integration and not thorough"

thorough: $(STAMP)  ## attacks, kills, fuzzing and statistics: some minutes more
	$(BIN)/pytest -n 2 --dist worksteal -m "thorough and not integration and not long"

SPARK := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[spark]"

PEERS := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e . -e "./research[peers]"

LABEL_STUDIO := out/label-studio/.installed

$(LABEL_STUDIO): tests/integration/label-studio.txt
	$(PYTHON) tests/integration/label_studio_server.py

label-studio: $(LABEL_STUDIO)  ## a real Label Studio in an environment of its own: a gigabyte, some minutes, once

integration: $(STAMP) $(LABEL_STUDIO)  ## the installed wheel; a real redis-server, PostgreSQL, Spark (Java 17), Chromium, Label Studio; peers
	$(SPARK)
	$(PEERS)
	$(BIN)/pytest -n 2 --dist loadfile -m "integration and not long"

lint: $(STAMP)  ## style, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

long: $(STAMP)  ## minutes to hours; run by hand, results committed
	$(SPARK)
	$(BIN)/pytest -n 2 -m "long"

docs: $(STAMP)  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(STAMP)  ## speed, as ratios; writes benchmarks/results/
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e . -e "./research[bench]"
	$(BIN)/python benchmarks/ledger_and_noise.py
	$(BIN)/python benchmarks/planning.py
	$(BIN)/python benchmarks/dp_sgd.py
	$(BIN)/python benchmarks/scoring.py
	$(BIN)/python benchmarks/scattering.py
	$(BIN)/python benchmarks/selection.py
	$(BIN)/python benchmarks/campaign.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/teachers.py
	$(BIN)/python benchmarks/teacher_noise.py
	$(BIN)/python benchmarks/stream_service.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/sketches.py $(DATA)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/streams.py $(DATA)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/web.py
	$(BIN)/python benchmarks/release_gate.py $(DATA) out

clean:
	rm -rf $(VENV) site out .pytest_cache .mypy_cache .ruff_cache .hypothesis
