# Two commands do everything: `make run` and `make test`. Both may be repeated and ask nothing.

CARGO ?= cargo
BIN := target/release
REPORT ?= report
FUZZ_SECONDS ?= 60
PREFIX ?= /usr/local
FIRE_RECORD := crates/device/fire/record.jsonl
RECORD := $(CURDIR)/target/consumers/results.jsonl

.DEFAULT_GOAL := help
.PHONY: help run paper dbms interruptions test docs demos bench agree cost scenarios consumers slurm fire fuzz loom attack tsan miri setup build install licences packages-build packages packages-test packages-wheel container

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: setup build ## Measure Soft-EFA beside TCP and published hardware; writes report/index.html
	@$(BIN)/efa-bench plan quick --softefa $(BIN)/softefa --out $(REPORT)

paper: setup build ## Every figure of the EFA paper on Soft-EFA and TCP, within 25 minutes; goes on after Ctrl-C
	@$(BIN)/efa-bench run --plan paper --softefa $(BIN)/softefa --out $(REPORT)/paper

dbms: setup build ## What data systems do with a fabric, on Soft-EFA and TCP; goes on after Ctrl-C
	@$(BIN)/efa-bench run --plan dbms --softefa $(BIN)/softefa --out $(REPORT)/dbms

interruptions: ## Interrupt a plan at MOMENTS (50) random moments: always a valid result, always resumable
	@EFA_BENCH_MOMENTS=$(or $(MOMENTS),50) $(CARGO) test --quiet -p efa-bench --test all -- plans::an_interrupted --nocapture

test: setup ## Everything a change must pass: format, lints, documents, tests, consumers
	@.ci/steps

demos: build ## Record the demos of the README and the book again: runs their commands, writes docs/demos/*.svg (a minute)
	@PATH="$(CURDIR)/$(BIN):$$PATH" python3 -B docs/demos/record.py

MDBOOK_VERSION := 0.5.4
MDBOOK := $(if $(filter v$(MDBOOK_VERSION),$(shell mdbook --version 2>/dev/null)),mdbook,target/tools/bin/mdbook)
docs: ## Build the book from docs/ (book/index.html, with search) and check all its links
	@$(MDBOOK) --version 2>/dev/null | grep -qx 'mdbook v$(MDBOOK_VERSION)' || { \
	  echo "installing mdbook $(MDBOOK_VERSION) into target/tools (a minute): it renders docs/"; \
	  $(CARGO) install --quiet --locked --debug --version $(MDBOOK_VERSION) --no-default-features --features search \
	    --root target/tools --target-dir target/tools/build mdbook && rm -rf target/tools/build; }
	@rm -rf book && $(MDBOOK) build
	@$(CARGO) xtask book

bench: setup build ## Latency and bandwidth of both wires against the floors of this machine, as ratios
	@$(BIN)/efa-bench run --plan floors --softefa $(BIN)/softefa --out $(REPORT)/floors --force
	@awk '/ping-64$$/ { print "instructions of a 64 B message, both ends: " $$1 " (cargo xtask device-cost)" }' \
	    crates/device/softefa/instructions.txt

agree: setup build ## efa-bench beside perftest and fi_pingpong on one device: within 5 %?
	@$(BIN)/efa-bench run --plan agree --softefa $(BIN)/softefa --out $(REPORT)/agree --force

cost: setup ## Instructions per packet of netsim and per message of efa-bench beside the recorded; netsim's golden tables
	@$(CARGO) build --release --quiet -p netsim
	@$(CARGO) xtask cost $(BIN)/netsim
	@$(CARGO) test --release --quiet -p netsim --test golden
	@$(CARGO) xtask device-cost
	@$(CARGO) xtask own-cost

scenarios: ## Every scenario of netsim with all its seeds beside its bounds; writes docs/SCENARIOS.md
	@$(CARGO) build --release --quiet -p netsim
	@$(BIN)/netsim check scenarios/*.toml scenarios/heldout/*.toml scenarios/go-back-n/*.toml --beside 11..13 \
	    --markdown docs/SCENARIOS.md --force

consumers: setup build ## Every consumer on both wires in every size, depth and fault, and sealed in a few; writes docs/CONSUMERS.md
	@.ci/setup consumers
	@mkdir -p target/consumers && rm -f $(RECORD)
	@(umask 077 && head -c 32 /dev/urandom > target/consumers/key)
	@status=0; \
	  for wire in auto udp; do \
	    SOFTEFA_WIRE=$$wire SOFTEFA_MATRIX=long SOFTEFA_RECORD=$(RECORD) $(CARGO) test --release -p softefa-cli \
	      --test consumers -- --test-threads=1 --nocapture || status=$$?; \
	    SOFTEFA_WIRE=$$wire SOFTEFA_KEY_FILE=$(CURDIR)/target/consumers/key $(CARGO) test --release -p softefa-cli \
	      --test consumers -- --test-threads=1 --nocapture || status=$$?; \
	  done; \
	  $(CARGO) xtask consumers $(RECORD) && exit $$status

slurm: setup ## Ranks of efa-bench under Debian's Slurm, started on this machine in a folder of its own
	@.ci/setup slurm
	@SOFTEFA_SLURM=1 $(CARGO) test --quiet -p efa-bench --test all slurm::

attack: ## DATAGRAMS (10000000) by a process of another user at each kind of live traffic; as root
	@SOFTEFA_ATTACK_DATAGRAMS=$(or $(DATAGRAMS),10000000) $(CARGO) test --release --quiet -p softefa --test attack -- \
	  --nocapture --test-threads=1 nothing_a_stranger

fire: setup ## Links that die, ends that are killed, shortages, an hour of soak; as root; writes docs/RELIABILITY.md
	@.ci/setup fuzz
	@$(CARGO) build --release --quiet -p softefa-cli -p softefa-verbs -p fire
	@$(CARGO) xtask replace-verbs $(BIN)
	@status=0; $(BIN)/fire run --seed $(or $(SEED),1) --record $(FIRE_RECORD) || status=$$?; \
	  $(BIN)/fire document --record $(FIRE_RECORD) && exit $$status

fuzz: ## Fuzz all that reads what others wrote, and the engine, FUZZ_SECONDS (60) each
	@.ci/setup fuzz
	@for target in $$(fuzz/run --list); do fuzz/run $$target $(FUZZ_SECONDS) || exit 1; done

TSAN_HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
loom: ## Small shared structures in every order that their memory accesses allow (loom, a minute with its build)
	@cd loom && $(CARGO) test --quiet

tsan: setup ## The adapter's tests under ThreadSanitizer, ROUNDS (4000) of the one that does everything at once
	@test -d "$$(rustc --print sysroot)/lib/rustlib/src/rust/library" || { echo \
	    "tsan: the standard library must be built, too, and its source is missing: rustup component add rust-src" >&2; exit 1; }
	@RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=thread SOFTEFA_ROUNDS=$(or $(ROUNDS),4000) \
	  TSAN_OPTIONS="suppressions=$(CURDIR)/crates/device/softefa/tests/tsan.supp die_after_fork=0" \
	  $(CARGO) test --quiet -Zbuild-std --target $(TSAN_HOST) --target-dir target/tsan -p softefa --tests -- \
	  --skip a_stream_leaves_in_bursts # A program that polls every 20 us: here nothing is that fast.

miri: ## Modules of the engine and the adapter without system calls under Miri, those that take a minute or two
	@$(CARGO) miri --version >/dev/null 2>&1 || { echo "miri: not installed: rustup toolchain install nightly" \
	    "--component miri,rust-src && make miri CARGO='cargo +nightly'" >&2; exit 1; }
	@MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) miri test --quiet -p srd --lib -- wire:: time:: id:: rng:: recv::echo:: recv::refused::
	@MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) miri test --quiet -p softefa --lib -- ah:: config:: fault:: mr:: trace:: \
	  --skip the_default_device_is --skip a_profile_alone_chooses

licences: ## Licences, sources and duplicates of all dependencies; with cargo-deny installed their advisories, too
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny check; else $(CARGO) xtask licences; fi

packages: packages-build ## The .deb packages and the wheel of softefa, efa-bench and netsim, below target/packages
	@packaging/deb
	@packaging/wheel

packages-build:
	@.ci/setup packages
	@packaging/build

packages-wheel: packages-build
	@packaging/wheel

packages-test: ## Install the packages into fresh Debians 12 and 13 and a fresh Python, and use them; build with Debian 13's compiler, and twice for equal bytes; as root
	@.ci/setup packages
	@if command -v actionlint >/dev/null; then actionlint && echo "action: ok"; else echo "actionlint is not installed: the" \
	    "action is NOT CHECKED (go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12)" >&2; fi
	@packaging/test-action
	@packaging/test-relink
	@packaging/test-packing
	@packaging/test-wheel
	@packaging/test-deb bookworm trixie
	@packaging/test-source trixie
	@packaging/test-container
	@packaging/test-reproducible

container: ## An image with softefa, efa-bench and netsim (podman or docker)
	@tool=$$(command -v podman || command -v docker) || { \
	  echo "container: neither podman nor docker is here: sudo apt-get install podman (or docker.io)" >&2; exit 1; }; \
	  "$$tool" build -f packaging/container/Containerfile -t soft-efa .

setup:
	@.ci/setup run

build: ## Build softefa, its library, efa-bench and netsim (target/release)
	@$(CARGO) build --release --quiet -p softefa-cli -p softefa-verbs -p efa-bench -p netsim
	@$(CARGO) xtask replace-verbs $(BIN)

INTO := $(DESTDIR)$(PREFIX)
LIB := $(INTO)/lib/softefa
install: ## Install below PREFIX (/usr/local): programs in bin, libraries in lib/softefa
	@for folder in "$(INTO)/bin" "$(LIB)/replace-verbs" "$(INTO)/share/softefa"; do \
	  until [ -e "$$folder" ]; do folder=$$(dirname "$$folder"); done; \
	  [ -d "$$folder" ] && [ -w "$$folder" ] || { echo "install: you may not write to $$folder: make build && sudo make" \
	    "install PREFIX='$(PREFIX)', or make install PREFIX=\$$HOME/.local" >&2; exit 1; }; \
	done
# Root mostly has no Rust: by sudo, what `make build` has built is installed as it is.
	@if [ -z "$$SUDO_USER" ] || [ ! -x $(BIN)/softefa ]; then $(MAKE) --no-print-directory build; fi
	@install -d "$(INTO)/bin" "$(LIB)/replace-verbs"
	@install -s $(BIN)/softefa $(BIN)/efa-bench $(BIN)/netsim "$(INTO)/bin"
	@install -s -m 644 $(BIN)/libsoftefa_verbs.so "$(LIB)"
	@install -m 644 -D -t "$(INTO)/share/softefa" dissector/softefa.lua
	@install -m 755 $(BIN)/replace-verbs/lib*.so.1 "$(LIB)/replace-verbs"
	@cp -P $(BIN)/replace-verbs/lib*.so "$(LIB)/replace-verbs"
