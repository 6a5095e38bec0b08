# Springtide's everyday commands. `make help` lists them.
#
# All that the machine has to have is Python 3.11+, Java 17+ and make: everything else is installed into .venv, in the
# files whose hashes requirements*.lock have, again whenever those or pyproject.toml change. VENV=DIR uses another folder,
# PYTHON=... another interpreter, LOCKED=0 the newest versions that pyproject.toml allows.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory
# Tests and demos start hundreds of processes: each would compile the whole source again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
LOCKED ?= 1
PIP := $(BIN)/python -m pip install --disable-pip-version-check
# The first brings the setuptools that PySpark and Springtide are built with. A folder has no hash.
INSTALL := $(if $(filter 1,$(LOCKED)),$(PIP) --require-hashes -r requirements.lock \
    && $(PIP) --require-hashes --no-build-isolation -r requirements-dev.lock \
    && $(PIP) --no-deps --no-build-isolation -e .,$(PIP) -e '.[dev]')

SOURCES := controller admin_api dataplane coordinator localcluster springtide pipeline pyspark_springtide migrations bench tests
# Tests that start no process and watch no clock: as many at a time as there are cores. Those that measure how long a fault
# lasts: one by one. All others have processes of their own and wait for them much of the time: three files at a time.
PARALLEL := tests/unit tests/simulation tests/fullstack tests/hostile tests/fuzz tests/pipeline_sim tests/powercuts
ALONE := tests/faults/test_kill_rounds.py
SEEDS ?= 50
PYTEST_ARGS ?=
KAFKA_HOME ?=
UP_ARGS ?=
FAULT_MINUTES ?= 12
FAULT_SEED ?= 1
FAULT_FAMILIES ?= disk metadata clocks pauses creation rot minority groups
PROFILE ?= full
TURN ?=
FIRST ?=
MINUTES ?= 60
ROWS ?=
CASES ?= 10000
BASE ?=
PROCESSES ?=
TAG ?=
TRY ?= 3.11 3.13

.PHONY: help demo up test check lint style types unit sim rest fuzz audit faults proof last-release upgrade-proof explore pipeline-proof connector kafka-tools bench interop interop-apps interop-suites house docs install lock release release-try release-tools deb packages host-packages fuzzer clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(INSTALLED) ## a real cluster, a leader killed under load, everything read back; figures in build/demo.json
	@$(BIN)/python -m localcluster demo --report build/demo.json

up: $(INSTALLED) ## leave a cluster running until Ctrl-C and show how to use it (UP_ARGS="--brokers 5 --port-base 19000")
	@$(BIN)/python -m localcluster up $(UP_ARGS)

test: $(INSTALLED) packages ## every check and every test (PYTEST_ARGS="-m 'not proof' --rounds 20": all, long kill rounds)
	@mkdir -p build; date +%s >build/test-began
	@$(MAKE) -j 2 style types sim
	PROOF_TABLE= $(BIN)/python -m pytest -n auto --dist worksteal $(PARALLEL) $(PYTEST_ARGS) || [ $$? = 5 ]  # 5: none selected
	PROOF_TABLE= $(BIN)/python -m pytest -p tests.second_try $(ALONE) $(PYTEST_ARGS) || [ $$? = 5 ]
	$(BIN)/python -m pytest -p tests.second_try -n 3 --dist loadfile --no-loadscope-reorder $(addprefix --ignore=,$(PARALLEL) $(ALONE)) $(PYTEST_ARGS)
	@$(if $(PYTEST_ARGS),,echo $$(($$(date +%s) - $$(cat build/test-began))) >build/seconds-test)

check: $(INSTALLED) ## the everyday loop, less than five minutes: format, lint, types, imports, units, simulation
	@mkdir -p build; date +%s >build/check-began
	@$(MAKE) -j 2 style types unit sim
	@echo $$(($$(date +%s) - $$(cat build/check-began))) >build/seconds-check

lint: $(INSTALLED) ## format, lint, types and import rules
	@$(MAKE) -j 2 --output-sync=target style types

style: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(INSTALLED)
	$(BIN)/mypy

unit: $(INSTALLED) ## unit tests only
	$(BIN)/python -m pytest tests/unit -q -n auto --dist worksteal $(PYTEST_ARGS)

sim: $(INSTALLED) ## seeded simulation runs (SEEDS=50; a landing runs three hundred)
	$(BIN)/python -m tests.simulation sweep --seeds $(SEEDS)

rest: $(INSTALLED) ## CASES=10000 requests drawn from the OpenAPI document, right and wrong; every answer checked
	$(BIN)/python -m tests.hostile --cases $(CASES)

fuzz: $(INSTALLED) fuzzer ## five minutes of bytes from outside, searched by coverage for one that a decoder does not stand
	$(BIN)/python -m tests.fuzz

audit: $(INSTALLED) ## advisories about what requirements*.lock name, where the database can be reached
	@.ci/audit $(BIN)/python

faults: $(INSTALLED) host-packages ## real processes on hosts of their own, broken for FAULT_MINUTES=12, then each family of faults; needs root
	$(BIN)/python -m tests.faults.nemesis --minutes $(FAULT_MINUTES) --seed $(FAULT_SEED)
	$(BIN)/python -m tests.faults.elastic
	@for family in $(FAULT_FAMILIES); do echo "--- $$family"; $(BIN)/python -m tests.faults.$$family --size full; done

proof: $(INSTALLED) host-packages $(if $(filter full,$(PROFILE)),fuzzer) ## everything that tries to lose a record; the table in build/proof.md (PROFILE=ci: smaller)
	$(BIN)/python -m tests.proof run --profile $(PROFILE) $(if $(TURN),--turn $(TURN)) $(if $(FIRST),--first $(FIRST))

last-release: $(INSTALLED) ## build the release before this one from the repository, into build/last-release
	@$(BIN)/python -m tests.upgrade.last_release

upgrade-proof: $(INSTALLED) ## last release and this one side by side under load, there, back and on; the table in build/upgrade-proof.md
	@$(BIN)/python -m tests.upgrade.matrix --size $(PROFILE) $(if $(FIRST),--seed $(FIRST))
	@$(if $(filter full,$(PROFILE)),$(BIN)/python -m tests.upgrade.rolling)

explore: $(INSTALLED) host-packages ## new seeds on all tiers for MINUTES=60, or until Ctrl-C; what fails says how to repeat it
	$(BIN)/python -m tests.proof explore --minutes $(MINUTES)

pipeline-proof: $(INSTALLED) connector ## what the pipeline promises, row by row; the table in build/pipeline-proof.md (ROWS="6 9": only these)
	$(BIN)/python -m tests.pipeline_proof run $(ROWS:%=--only %)

# Of PySpark's release, or of the last one that was out before it, whose connector runs on it, too. What PySpark has itself
# is left out: two of a library on one class path is one too many.
connector: ## Spark's own Kafka connector, to compare with, where Maven can get it
	@bench/connector/fetch spark-kafka org.apache.spark:spark-sql-kafka-0-10_2.13 \
	    spark-sql-kafka-0-10_2.13,spark-token-provider-kafka-0-10_2.13,kafka-clients,commons-pool2 4.3.0 4.2.0

# What most of the command-line tools need, not all that Kafka has.
kafka-tools: ## Apache Kafka's own command-line tools, to be tried, where Maven can get them
	@bench/connector/fetch kafka-tools/libs org.apache.kafka:kafka-tools \
	    kafka-tools,kafka-tools-api,kafka-clients,kafka-server-common,kafka-storage,jopt-simple,slf4j-api,jackson-core,jackson-databind,jackson-annotations,re2j,argparse4j 4.4.0

bench: $(INSTALLED) ## throughput and latency; KAFKA_HOME=DIR beside that Apache Kafka, GATE=1 with goals, ROWS="idle-* *-tls" only these, TLS=1 with TLS, WORKERS=1 with two workers a broker; build/bench.json
	$(BIN)/python -m bench cluster $(if $(KAFKA_HOME),--kafka-home $(KAFKA_HOME)) $(if $(GATE),--gate) $(if $(TLS),--tls) $(if $(WORKERS),--workers) $(foreach row,$(ROWS),--case '$(row)')

interop: $(INSTALLED) packages ## each Kafka client against each thing it can ask for (KAFKA_HOME=DIR adds Kafka's tools and a Kafka); build/interop.md
	@$(BIN)/python -m tests.interop --install $(if $(KAFKA_HOME),--kafka-home $(KAFKA_HOME))

interop-apps: $(INSTALLED) packages ## each application's main job at its defaults (APPS=faust,rsyslog; KAFKA_HOME=DIR adds a Kafka); build/interop-apps.md
	@$(BIN)/python -m tests.interop.apps --install $(if $(APPS),--apps $(APPS)) $(if $(KAFKA_HOME),--kafka-home $(KAFKA_HOME))

interop-suites: $(INSTALLED) ## other clients' own tests, fetched by Go, against brokers of ours at 9092 (SUITES=franz-go,DIR); build/interop-suites.md
	@$(BIN)/python -m tests.interop.suites $(if $(SUITES),--suites $(SUITES))

house: $(INSTALLED) ## the code's seams as a table: walks, import cycles, sizes (BASE=REVISION beside it, PROCESSES=1 with memory and start-up)
	@$(BIN)/python -m tests.house $(if $(BASE),--base $(BASE)) $(if $(PROCESSES),--processes)

docs: $(INSTALLED) ## the documents as a site with search, and references made from the code; build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict -q
	@echo "build/site/index.html"

install: $(INSTALLED) ## only create .venv and install into it

lock: $(INSTALLED) ## write requirements*.lock anew: the newest versions that pyproject.toml allows
	@.ci/lock $(BIN)/python

release: $(INSTALLED) release-tools ## sdist, wheel, SBOM and checksums in dist/, built twice and compared (TAG=1: and the tag)
	@TAG=$(TAG) packaging/release $(BIN)/python

release-try: $(INSTALLED) ## dist/'s wheel, where nothing else is, on TRY="3.11 3.13" of Python
	@for release in $(TRY); do \
	    $(BIN)/python packaging/try_wheel.py dist/*.whl --python "$$(.ci/python $$release)" \
	        --lend "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"; \
	done

deb: $(INSTALLED) release-tools ## a Debian package of dist/'s wheel, tried in a fresh Debian 13 where we are root
	@packaging/deb/make $(BIN)/python
	@if [ "$$(id -u)" -eq 0 ]; then packaging/deb/try dist/*.deb; else echo "not tried: that needs root"; fi

$(INSTALLED): pyproject.toml requirements.lock requirements-dev.lock springtide/native/_records.c
	@if [ -z "$(PYTHON)" ] || ! "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
	    echo "Python 3.11 or newer is needed; PYTHON=/path/to/python3.11 make ... chooses one"; exit 1; fi
	@echo "installing into $(VENV): about 750 MB to download, most of it PySpark, whose jars include ZooKeeper; once, a few minutes"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@{ $(INSTALL); } 2>&1 \
	    | awk '/^Requirement already satisfied/ { next } { print "  " $$0; fflush() }'
	@touch $@

packages:
	@.ci/debian-packages curl kcat jq openssl chromium chromium-driver

release-tools: $(INSTALLED)
	@$(PIP) --quiet --require-hashes -r requirements-release.lock

fuzzer: $(INSTALLED)
	@$(PIP) --quiet --only-binary :all: --require-hashes -r requirements-fuzz.lock \
	    || echo "there is no fuzzer for this machine or this Python: the part 'fuzz' will not run"

host-packages:
	@.ci/debian-packages iproute2 nftables e2fsprogs faketime

clean: ## remove what was built, the virtual environment included
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
