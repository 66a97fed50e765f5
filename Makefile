# mTCP: the commands a person needs. `make help` lists them.
CARGO  ?= cargo
CC     ?= cc
STRIP  ?= strip
PREFIX ?= /usr/local
DESTDIR ?=
# What goes before whatever uses the built programs: build, native or pgo.
BUILD   = build
# Where they are. Cargo is asked once, and only by targets that want to know. ($(shell) sees no variables of make.)
ASK     = CARGO="$(CARGO)" $(if $(CARGO_TARGET_DIR),CARGO_TARGET_DIR="$(CARGO_TARGET_DIR)") sh scripts/release.sh
RELEASE = $(eval RELEASE := $$(shell $(ASK)))$(or $(RELEASE),$(error no release directory))
export PATH := $(PATH):/usr/sbin:/sbin

.PHONY: help build native pgo demo test bench install examples check setup clean

help:
	@echo "make demo      show the main job on real traffic (root: AF_XDP on a veth pair; else shared memory)"
	@echo "make test      run every test; ends with 'N passed, N failed'"
	@echo "make bench     run the micro-benchmarks and the comparison with the kernel"
	@echo "make build     build the library and the mtcp command (target/release), for every x86-64-v2 machine"
	@echo "make native    the same, for the processor of this machine"
	@echo "make pgo       faster still: with a profile of what the stack does most (needs llvm-tools of the toolchain)"
	@echo "               'make TARGET BUILD=pgo' does TARGET, such as install, with it"
	@echo "make install   install library, headers, pkg-config file and mtcp below PREFIX ($(PREFIX))"
	@echo "make examples  build the C examples against the library (build/examples)"
	@echo "make check     formatting, lints, docs and design checks"

setup:
	@sh scripts/setup.sh

build:
	$(CARGO) build --release -p tools -p capi -p preload

native:
	RUSTFLAGS="$$RUSTFLAGS -Ctarget-cpu=native" $(CARGO) build --release -p tools -p capi -p preload

pgo:
	$(CARGO) xtask pgo

demo: setup $(BUILD)
	"$(RELEASE)/mtcp" demo

test:
	@WITH_PROGRAMS=1 sh scripts/setup.sh
	$(CARGO) xtask test

bench: setup $(BUILD)
	$(CARGO) bench -p wire --bench headers
	$(CARGO) bench -p ring --bench ring
	$(CARGO) bench -p mtcp-core --features testing --bench tables --bench segments
	$(CARGO) bench -p io --bench shm
	MTCP_BIN="$(RELEASE)/mtcp" sh scripts/compare.sh

install: $(BUILD)
	MTCP_LIB_DIR="$(RELEASE)" STRIP="$(STRIP)" sh crates/capi/install.sh "$(PREFIX)" "$(DESTDIR)"
	install -d "$(DESTDIR)$(PREFIX)/bin"
	install -m 755 "$(RELEASE)/mtcp" "$(DESTDIR)$(PREFIX)/bin/mtcp"
	install -m 755 "$(RELEASE)/libmtcp_preload.so" "$(DESTDIR)$(PREFIX)/lib/libmtcp_preload.so"
	$(STRIP) "$(DESTDIR)$(PREFIX)/bin/mtcp"
	$(STRIP) --strip-unneeded "$(DESTDIR)$(PREFIX)/lib/libmtcp_preload.so"

examples: $(BUILD)
	MTCP_LIB_DIR="$(RELEASE)" STRIP="$(STRIP)" sh crates/capi/install.sh "$(CURDIR)/build/prefix" ""
	mkdir -p build/examples
	for program in epserver epwget echo; do \
		PKG_CONFIG_PATH="$(CURDIR)/build/prefix/lib/pkgconfig" sh -c \
		'$(CC) -O2 -Wall -Wextra -o build/examples/'$$program' examples/c/'$$program'.c $$(pkg-config --cflags --libs libmtcp) -Wl,-rpath,$(CURDIR)/build/prefix/lib' || exit 1; \
	done

check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps
	$(CARGO) xtask check
	$(CARGO) xtask rfc --check

clean:
	$(CARGO) clean
	rm -rf build
