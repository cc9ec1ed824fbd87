# Two commands to begin with: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench
DOCS_STAMP := $(VENV)/.installed-docs

# The native implementation of wire/arrow, in Rust: optional, used if it is built.
NATIVE_STAMP := native/target/.installed
NATIVE_SOURCES := $(wildcard native/src/*.rs) native/Cargo.toml native/crates.lock native/lock.py setup.py setup.cfg
CARGO_ARGS := --locked --manifest-path native/Cargo.toml
WORKERS ?= 5

# Class archives: JVMs of tests map them into memory at their start instead of loading the classes.
CLASSES := build/classes
CLASSES_STAMP := $(CLASSES)/.written

NATIVE_WHERE_CARGO_IS := $(if $(shell command -v cargo 2>/dev/null),native)

# If it is set, as in many images, each of the thousands of processes of a run compiles the package again.
unexport PYTHONDONTWRITEBYTECODE
# .venv has a Spark. With these, PySpark would start or configure another one.
unexport SPARK_HOME SPARK_CONF_DIR PYSPARK_SUBMIT_ARGS

.PHONY: demo test test-all test-rest test-versions test-sparks test-sparks-short test-tables test-long mutate mutate-sample bench bench-quick compiled check docs site \
	stubs native wheel check-native fuzz-native clean

$(STAMP): setup.py
	$(PYTHON) -m venv $(VENV)
	@echo "installing PySpark and the tools of the tests into $(VENV): about 1 GB"
	$(BIN)/python -m pip install --quiet --upgrade pip
	ROCKETMQ_SPARK_BUILD_NATIVE=0 $(BIN)/python -m pip install --quiet --no-compile --editable '.[dev]'
	touch $@

$(BENCH_STAMP): $(STAMP)
	ROCKETMQ_SPARK_BUILD_NATIVE=0 $(BIN)/python -m pip install --quiet --editable '.[bench]'
	touch $@

$(DOCS_STAMP): $(STAMP)
	ROCKETMQ_SPARK_BUILD_NATIVE=0 $(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

$(CLASSES_STAMP): $(STAMP)
	@echo "running Spark and a broker once, to store their classes for the tests: half a minute"
	$(BIN)/python -m connector_tests.support.class_archives $(CLASSES)
	touch $@

demo: $(STAMP) ## run a real broker, a stream of orders, and a second member that joins and leaves
	$(BIN)/rocketmq-spark demo $(DEMO)

PYTEST = $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

test: $(STAMP) $(CLASSES_STAMP) ## test every guarantee in the short form
	$(PYTEST) $(TESTS)

test-all: $(STAMP) $(CLASSES_STAMP) ## test also groups, outages, crashes, security, examples and the demo; not versions, sparks, tables and long forms
	$(PYTEST) -m "not long and not versions and not tables and not sparks" $(TESTS)

test-rest: $(STAMP) $(CLASSES_STAMP) ## run the tests of test-all that test omits, and those that need the native decoder
	$(PYTEST) -m "(full or native) and not long and not versions and not tables and not sparks" $(TESTS)

test-versions: $(STAMP) ## run the core tests on all versions of RocketMQ, one after the other
	$(BIN)/python -m pytest -m versions $(TESTS)

test-sparks: $(STAMP) ## run the main end-to-end tests on Spark 4.0 to 4.3, installed below build/sparks; print their figures
	$(BIN)/python -m pytest -m "sparks and not long" $(TESTS)
	cat build/sparks.txt

test-sparks-short: $(STAMP) ## run one kill test and one sink test of them, on Spark 4.0 and 4.1
	$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup -m "sparks and not long" \
	  -k "(is_killed_reads_each_message or rows_are_written) and (4.0 or 4.1)" connector_tests/spark/test_sparks.py

test-tables: $(STAMP) ## kill jobs with Delta and Iceberg, on Spark versions installed below build/sparks
	rm -f build/tables.txt
	$(BIN)/python -m pytest -m tables $(TESTS)
	cat build/tables.txt

test-long: $(STAMP) ## run the long forms of fuzz, soak and kill sweeps
	CONNECTOR_TESTS_NEW_EXAMPLES=1 $(BIN)/python -m pytest -m long $(TESTS)

mutate: $(STAMP) ## run mutation tests of the pure modules, long; GROUP=name: of one group; write build/mutation.md
	$(BIN)/python tools/mutate.py $(GROUP)

mutate-sample: $(STAMP) ## run mutation tests of a few functions
	$(BIN)/python tools/mutate.py --sample

compiled: $(STAMP) ## compile the package's bytecode, as pip does at an installation
	$(BIN)/python -m compileall -q rocketmq_spark pyspark_rocketmq.py rocketmq_spark_python.py

bench: $(BENCH_STAMP) $(NATIVE_WHERE_CARGO_IS) compiled ## compare with Java's clients and Spark's Kafka connector, an hour; write docs/benchmarks
	$(BIN)/python -m connector_tests.benchmarks $(BENCH)

bench-quick: $(BENCH_STAMP) $(NATIVE_WHERE_CARGO_IS) compiled ## run bench with fewer messages and rounds, 5 minutes; write build/benchmarks
	$(BIN)/python -m connector_tests.benchmarks --quick --into build/benchmarks $(BENCH)

check: $(STAMP) ## check lint, format, types, layers and generated docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/generate_docs.py --check

STUBS := rocketmq_spark/wire/grpc/messaging

stubs: $(STAMP) ## compile the messages of requests to a proxy and of its responses
	$(BIN)/python -m grpc_tools.protoc --proto_path=. --python_out=. --pyi_out=. $(STUBS).proto

docs: $(STAMP) ## write the generated parts of the documentation
	$(BIN)/python tools/generate_docs.py

site: $(DOCS_STAMP) docs ## build the documentation as a site in build/site; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

native: $(NATIVE_STAMP) ## build the Rust decoder into the source tree; needs cargo

# A decoder that cannot be imported fails here: the tests would skip it.
$(NATIVE_STAMP): $(STAMP) $(NATIVE_SOURCES)
	ROCKETMQ_SPARK_BUILD_NATIVE=1 $(BIN)/python -m pip install --quiet --no-deps --editable .
	ROCKETMQ_SPARK_IMPL=native $(BIN)/rocketmq-spark --version
	touch $@

wheel: $(STAMP) ## build a wheel with the Rust decoder in dist, for every Python from 3.11 on this platform
	ROCKETMQ_SPARK_BUILD_NATIVE=1 $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

check-native: ## check format, lint and tests of the Rust decoder
	cargo fmt --check --manifest-path native/Cargo.toml
	$(PYTHON) native/lock.py
	cargo clippy $(CARGO_ARGS) --all-targets --features python -- -D warnings
	cargo test --quiet $(CARGO_ARGS)

fuzz-native: native ## decode 10 million mutated bodies with both decoders
	$(BIN)/python -m pytest -m long connector_tests/properties/test_native_fuzz.py

clean:
	rm -rf $(VENV) build dist *.egg-info native/target native/Cargo.lock rocketmq_spark/wire/_native.*.so
