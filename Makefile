# make demo and make test need nothing but Python 3.11+ with venv; everything goes into .venv.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
unexport PYTHONDONTWRITEBYTECODE  # each of the many processes would compile everything that it imports

.PHONY: help demo test test-bare test-long check format docs man pyz container site native page bench bench-all findings lost-packets bench-attacks bench-bystander bench-broker bench-consumer bench-groups bench-authorizer bench-pauses bench-assignors clients failover interop assignors simulate simulate-check simulate-coverage farm fuzz fuzz-native mutants planted soak \
	clean oracle oracle-stop oracle-check

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1|\2/p' Makefile | while IFS='|' read -r name text; do printf '  %-21s %s\n' "make $$name" "$$text"; done

demo: .venv/.demo  ## three brokers and three kinds of real client, about ten seconds
	$(BIN)/mockbroker demo

test: .venv/.dev  ## the tests, each claim once
	$(BIN)/pytest -n 6  # more than the cores: real clients spend most of their time waiting

test-long: .venv/.dev  ## the tests with everything that they can try; CONTRIBUTING.md lists the difference
	$(BIN)/pytest -n 4 --long

# As on a laptop that has Python alone: what needs Java, Go, Node, kcat or Chromium is skipped, all else passes.
BARE := tests/test_snippets.py tests/interop tests/spark tests/mockbroker/cli tests/test_need.py tests/test_examples.py tests/test_consumer_examples.py \
	tests/kwire/cli tests/kwire/test_process.py tests/kwire/test_errorcodes.py tests/kwire/messages/test_definitions.py \
	tests/kwire/analysis/report/test_html_page.py tests/mockbroker/lab/history/test_page.py tests/mockbroker/page/test_page.py

test-bare: .venv/.dev  ## the tests that use other tools, as on a machine without any
	.ci/bare $(BIN)/pytest -n 3 $(BARE)

check: .venv/.dev  ## ruff, mypy and pyright
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pyright

format: .venv/.dev  ## ruff, which changes files
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: .venv/.dev  ## the generated pages of docs/
	$(BIN)/python tools/conformance_table.py fixtures/conversations > docs/conformance.md
	$(BIN)/python tools/reference_pages.py docs/reference
	$(BIN)/python tools/table_pages.py docs/pipeline.md
	$(BIN)/python tools/loss_page.py benchmarks/results/lost_packets.json docs/pipeline.md
	$(BIN)/python tools/findings_page.py benchmarks/results/findings.json docs/findings.md
	$(BIN)/python tools/errors_page.py docs/errors.md mockbroker/faults/api_errors.tsv
	$(BIN)/python tools/presets_page.py benchmarks/results/presets.json docs/presets.md
	$(BIN)/python tools/usage_pages.py docs
	$(BIN)/python tools/assurance_page.py docs/assurance.md
	$(BIN)/python tools/rebalance_picture.py > docs/rebalance.svg
	$(BIN)/python tools/goals_page.py benchmarks/results/goals.json docs/performance.md

man: .venv/.dev  ## the man pages of all commands, into dist/man
	$(BIN)/python tools/man_pages.py dist/man

# What cargo builds stays in .cache/native.
native: .venv/.dev  ## the native engine (Rust 1.85 or newer), which kwire then uses by default
	@if command -v cargo >/dev/null; then \
		$(BIN)/pip install --quiet --disable-pip-version-check 'maturin >=1.7,<2' && \
		VIRTUAL_ENV=$(CURDIR)/.venv CARGO_TARGET_DIR=$(CURDIR)/.cache/native \
			$(BIN)/maturin develop --release --locked --manifest-path native/Cargo.toml && \
		$(BIN)/kwire --version; \
	else echo "make native: cargo is not installed (https://rustup.rs); kwire keeps its compiled engine"; fi

pyz: .venv/.dev  ## mockbroker as one file for this platform and Python, into dist/
	$(BIN)/python packaging/pyz.py dist

container: .venv/.dev  ## the steps of the Containerfile in a plain folder, from the wheel in dist/, without a container engine
	$(BIN)/python packaging/container_steps.py

site: .venv/.site  ## the documentation site with its references, into dist/site; links are checked
	$(BIN)/python tools/documentation_site.py dist/site

page: .venv/.dev  ## the live page from its sources in mockbroker/page/
	$(BIN)/python tools/page.py

bench: .venv/.bench  ## the tables of benchmarks/results, a few minutes on a quiet machine
	$(BIN)/python benchmarks/codec.py
	$(BIN)/python benchmarks/records.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/startup.py --imports
	$(BIN)/python benchmarks/capture.py
	$(BIN)/python benchmarks/assignors.py

findings: .venv/.dev  ## precision and recall of the detectors of findings, on stories with planted trouble, two minutes
	$(BIN)/python benchmarks/findings.py benchmarks/results/findings.json

lost-packets: .venv/.dev  ## what kwire groups finds in captures with lost and cut packets, beside the journal, a minute
	$(BIN)/python benchmarks/lost_packets.py benchmarks/results/lost_packets.json

bench-attacks: .venv/.dev  ## what small requests cost the broker, under a minute of CPU
	@$(BIN)/python benchmarks/attacks.py

bench-bystander: .venv/.dev  ## what a heartbeat waits for beside attacks: CPU of the loop, then latency on sockets
	@$(BIN)/python benchmarks/turns.py
	@$(BIN)/python benchmarks/bystander.py

bench-broker: .venv/.dev  ## beside a real Kafka and kfake (Java 17, Maven, Go, kcat), some ten minutes
	@$(BIN)/python benchmarks/broker.py | tee benchmarks/results/broker.md

bench-all: .venv/.bench  ## the goals of performance beside kio, kafka-python, aiokafka, kfake, Kafka and tshark, fifteen minutes
	@$(MAKE) --silent native >&2
	@$(BIN)/python benchmarks/goals.py

# A real Kafka to ask (Java 17 and Maven): make oracle RELEASE=3.9.1 PORT=19092 SET='num.partitions=1 group.max.size=2'
RELEASE ?= 4.2.0
PORT ?= 19092

oracle: .venv/.dev  ## a real Kafka: make oracle RELEASE=3.9.1 PORT=19092 SET='num.partitions=1 group.max.size=2'
	@$(BIN)/python tests/oracle/kafka.py start $(SET) --release $(RELEASE) --port $(PORT)

oracle-stop: .venv/.dev  ## stop it
	@$(BIN)/python tests/oracle/kafka.py stop --port $(PORT)

oracle-check: .venv/.dev  ## play all recorded conversations against it
	@$(BIN)/python tests/oracle/check.py --release $(RELEASE) --port $(PORT)

# The broker under seeded clients and faults (docs/simulation.md): make simulate SEEDS=50000 EVENTS=2000
SEEDS ?= 2000
EVENTS ?= 1000
SCHEME ?= swarm

simulate: .venv/.dev  ## the broker under seeded clients and faults: make simulate SEEDS=50000 EVENTS=2000 SCHEME=mix
	$(BIN)/mockbroker simulate --seed 0 --seeds $(SEEDS) --events $(EVENTS) --scheme $(SCHEME)

COVERED ?= 40

simulate-coverage: .venv/.dev  ## the states that met each request and fault in the simulator: make simulate-coverage COVERED=200
	$(BIN)/mockbroker simulate --scheme mix --seed 0 --seeds $(COVERED) --coverage --steer

MINUTES ?= 10

farm: .venv/.dev  ## fresh seeds of the simulator; failing scripts go to fixtures/seeds: make farm MINUTES=60
	$(BIN)/python tests/mockbroker/lab/simulation/farm.py $(MINUTES)

simulate-check: .venv/.dev  ## the seeds that catch the planted bugs, some minutes
	$(BIN)/python tests/mockbroker/lab/simulation/search.py --keep

clients: .venv/.dev  ## what each client can do, into docs/clients.md
	$(BIN)/pytest --long tests/interop --ignore tests/interop/test_matrix.py --clients docs/clients.md

failover: .venv/.dev  ## coordinators that die under every client, in every condition; some ten minutes
	$(BIN)/pytest tests/interop/test_failover.py --every-failover

# Our consumer alone, beside other clients and in the examples, on real brokers, some minutes (Java 17, Maven): make interop REAL=4.2.0
REAL ?= 4.2.0,3.9.1

interop: .venv/.dev  ## the trio consumer alone and beside other clients, on mock and real brokers: make interop REAL=4.2.0
	$(BIN)/pytest tests/interop/test_together.py tests/interop/test_our_consumer.py --real $(REAL)
	@$(BIN)/python tests/oracle/kafka.py start --release $(RELEASE) --port $(PORT)
	$(BIN)/pytest tests/test_consumer_examples.py --bootstrap 127.0.0.1:$(PORT); \
		status=$$?; $(BIN)/python tests/oracle/kafka.py stop --port $(PORT); exit $$status

bench-consumer: .venv/.dev  ## our consumer beside other clients, at the mock and at a real Kafka, some ten minutes
	@$(BIN)/python benchmarks/consumer.py | tee benchmarks/results/consumer.md

bench-authorizer: .venv/.dev  ## what ACLs and quotas cost a request, in instructions (valgrind), some minutes
	@$(BIN)/python benchmarks/authorizer.py --instructions | tee benchmarks/results/authorizer.md

bench-pauses: .venv/.dev  ## pauses of the garbage collector in a broker with 1,000 groups, some minutes
	@$(BIN)/python benchmarks/pauses.py | tee benchmarks/results/pauses.md

bench-groups: .venv/.dev  ## consumer, share and streams groups beside a real Kafka (Java 17, Maven), some minutes
	@$(BIN)/python benchmarks/modern_groups.py | tee benchmarks/results/modern_groups.md

bench-assignors: .venv/.dev  ## a leader's work beside Apache Kafka's own assignors (Java 17, Maven)
	@$(BIN)/python benchmarks/client_assignors.py

GROUPS ?= 5000

assignors: .venv/.dev  ## random groups beside Apache Kafka's own assignors, some minutes: make assignors GROUPS=20000
	$(BIN)/pytest --long tests/interop/test_assignors.py --groups $(GROUPS)

# Coverage-guided fuzzing of the decoders; what breaks goes into fixtures/corpus: make fuzz MINUTES=10 TARGETS='request blob'
# KEEP=1 adds the numbers of executions to those of docs/assurance.md.
# Without TARGETS it then counts the work of every request, some minutes.
MINUTES ?= 1

fuzz: .venv/.fuzz-coverage  ## coverage-guided fuzzing of the decoders, then the cost of requests: make fuzz MINUTES=10 TARGETS='request blob'
	@$(BIN)/python fuzzing/run.py --minutes $(MINUTES) $(if $(KEEP),--json fuzzing/results/fuzz.json) $(TARGETS)
	$(if $(TARGETS),,@$(BIN)/python fuzzing/cost.py --all --planted 10)
	$(if $(TARGETS),,@$(BIN)/python fuzzing/simulated_cost.py --seeds 10 --planted)

# The native engine beside the other engines, with inputs of libFuzzer: make fuzz-native EXECUTIONS=100000 TARGETS='message json'
EXECUTIONS ?= 1000000

fuzz-native: .venv/.dev  ## cargo-fuzz targets of the native engine (Rust 1.85 or newer, g++): make fuzz-native EXECUTIONS=100000
	@$(BIN)/python fuzzing/native_run.py --executions $(EXECUTIONS) $(if $(KEEP),--json fuzzing/results/fuzz.json) $(TARGETS)

# Small changes of the code that tests have to notice (docs/mutants.md): make mutants FOLDER='groups wire' COUNT=40 SEED=a
# Only lines that commits have changed: make mutants COMMITS=main..HEAD COUNT=20
COUNT ?= 300

mutants: .venv/.dev  ## changes of the code that tests have to notice: make mutants FOLDER=groups COUNT=40 SEED=a
	@$(BIN)/python fuzzing/mutants.py $(FOLDER) --count $(COUNT) $(if $(SEED),--seed $(SEED)) $(if $(COMMITS),--commits $(COMMITS)) \
		$(if $(LIMIT),--minutes $(LIMIT)) $(if $(AT_ONCE),--at-once $(AT_ONCE)) $(if $(KEEP),--json fuzzing/results/mutants.json)

planted: .venv/.dev  ## bugs that break a rule of Kafka, planted one by one, and what notices each
	$(BIN)/python fuzzing/planted_bugs.py
	@$(BIN)/python fuzzing/planted_bugs.py --table

HOURS ?= 1

soak: .venv/.dev  ## real clients, faults, kill -9 and a full disk, with a ledger of all records: make soak HOURS=0.5 SEED=1
	@nice -n 10 $(BIN)/python fuzzing/soak.py --hours $(HOURS) $(if $(SEED),--seed $(SEED)) $(if $(STEADY),--steady) $(if $(KEEP),--keep fuzzing/results/soak.json)

clean:  ## remove everything that make created
	rm -rf .fuzzing .venv .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/it" >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo "no venv module: install python3-venv" >&2; exit 1; }

EXTRAS_demo := demo,http,pytest  # docs/tutorial.md and the README go on in the .venv of make demo

# LOCKED=1 installs the versions of packaging/locked/dev.txt, those of the last release, in place of the newest ones.
.venv/.demo .venv/.dev .venv/.bench .venv/.site .venv/.fuzz-coverage: .venv/.%: .venv/bin/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check $(if $(LOCKED),--constraint packaging/locked/dev.txt) --editable '.[$(or $(strip $(EXTRAS_$*)),$*)]'
	@touch $@
