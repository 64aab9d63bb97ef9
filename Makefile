# The commands of this repository. `make help` lists them; all real work is in cargo, xtask and testing/.

export PATH := $(HOME)/.cargo/bin:$(PATH)
TARGET := $(or $(CARGO_TARGET_DIR),target)
DATA ?= warren-data
LISTEN ?= 127.0.0.1:5672

.DEFAULT_GOAL := help
.PHONY: help run cluster build package release image site test-image test-deb test soak bench fmt need-build need-test

help:
	@echo "make run     build the release binary and start a broker on $(LISTEN), data in ./$(DATA)"
	@echo "             (another address or folder: make run LISTEN=127.0.0.1:5673 DATA=/var/tmp/w)"
	@echo "make cluster three nodes on this machine, in ./warren-cluster; it prints how to kill, pause and cut them off"
	@echo "make test    everything that CI runs: format, clippy, tidy, unit tests, client and conformance suites"
	@echo "make soak    campaigns of hours: seeds of the simulator, kills of the broker, floods (cargo xtask suites --list)"
	@echo "make bench   the benchmarks and memory budgets; beside RabbitMQ where PEER is a command that runs one (testing/bench/run.sh)"
	@echo "make fmt     format the Rust sources"
	@echo "make build   the release binary only"
	@echo "make package tarball, Debian and RPM packages, in $(TARGET)/package; make test-deb tries the Debian one under systemd"
	@echo "make image   a container image (warren), in $(TARGET)/image; make test-image tries one out"
	@echo "make release all of a release with a static binary, bill of materials, checksums and signatures (packaging/release.sh)"
	@echo "make site    the documents as a site, in $(TARGET)/site"

build: need-build
	cargo build --release --package warren

package: build
	@packaging/build.sh $(TARGET)/package

release: need-build
	@packaging/release.sh

site:
	@testing/setup.sh python packages
	@packaging/site/site.py $(TARGET)/site .cache/packages/python/bin/mdbook

image: build
	@packaging/image.sh $(TARGET)/image

test-image: build
	@testing/packages/image.sh

test-deb: package
	@testing/packages/systemd.sh $$(ls -t $(TARGET)/package/warren_*.deb | head -1)

run: build
	@exec $(TARGET)/release/warren server --listen $(LISTEN) --data-dir $(DATA)

cluster: build
	@exec testing/cluster/local --warren $(TARGET)/release/warren up

test: need-build need-test
	cargo xtask test

soak: need-build need-test
	cargo xtask suites --soak

bench: need-build
	@if [ -x testing/bench/run.sh ]; then exec testing/bench/run.sh; \
	else echo "testing/bench/run.sh is not in this checkout"; exit 1; fi

fmt: need-build
	cargo fmt --all

# Says which tools are missing, what for, and where they come from.
define need
	@command -v $(1) >/dev/null 2>&1 || { echo "missing: $(1) ($(2)). $(3)"; exit 1; }
endef

need-build:
	$(call need,cargo,compiles everything,Install Rust from https://rustup.rs)
	$(call need,cc,links,Install a C toolchain: apt-get install build-essential)

need-test:
	$(call need,openssl,makes certificates for the suite of TLS,apt-get install openssl)
	$(call need,git,lists the files that tidy checks,apt-get install git)
	$(call need,python3,runs the conformance suite and the Python clients,apt-get install python3 python3-venv)
	$(call need,node,runs the Node client,Install Node 18 or later)
	$(call need,npm,fetches the Node client,It comes with Node)
	$(call need,go,runs the Go client,Install Go from https://go.dev/dl)
	$(call need,java,runs PerfTest,apt-get install default-jdk-headless)
	$(call need,mvn,fetches PerfTest,apt-get install maven)
