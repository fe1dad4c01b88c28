# Short commands for CMake: the work is in CMakePresets.json and dev/.
.PHONY: all writable cmake release install uninstall deb test-packages test-package-install test-package-source deps run check test test-marked bench soak asan tsan test-arm64 fuzz coverage format lint clean

JOBS ?= $(shell nproc)
# ccache is used if it is installed.
ifneq ($(shell command -v ccache 2>/dev/null),)
export CMAKE_C_COMPILER_LAUNCHER ?= ccache
endif
# Tests wait for much of their time, end-to-end tests for most of it. No result depends on how many run at once.
CHECK_JOBS ?= $(shell expr $(JOBS) '*' 3)
E2E_JOBS ?= $(shell expr $(JOBS) '*' 6)
# Instrumented programs need more CPU time, so fewer tests run at once.
ASAN_E2E_JOBS ?= $(shell expr $(JOBS) '*' 4)
CTEST = ctest --output-on-failure --no-tests=error -j$(CHECK_JOBS)

all: cmake
	@cmake --preset dev >/dev/null
	@cmake --build --preset dev -j$(JOBS)

# What stops a build before it begins, in one line that states what to do.
writable:
	@[ -w . ] && { [ ! -e build ] || [ -w build ]; } || \
	    { echo 'make: cannot write to $(CURDIR): copy it to a directory of your own, and build there' >&2; exit 1; }

cmake: writable
	@command -v cmake >/dev/null || { echo 'make: cmake not found: dev/install-deps installs it, and all else' >&2; exit 1; }

deps: writable
	@dev/install-deps

# Programs, manual pages, units, a first configuration: PREFIX=/usr/local, or below DESTDIR (docs/install.md).
PREFIX ?= /usr/local
DESTDIR ?=

release: cmake
	@cmake --preset release -DCMAKE_INSTALL_PREFIX=$(PREFIX) -DBUILD_TESTING=OFF >/dev/null
	@cmake --build --preset release -j$(JOBS)

install: release
	@DESTDIR=$(DESTDIR) cmake --install build-release

# Removes what the last `make install` installed, except the configuration.
uninstall:
	@grep -vF '$(PREFIX)/etc/' build-release/install_manifest.txt | grep -v '^/etc/' | sed 's,^,$(DESTDIR),' | tr '\n' '\0' | xargs -0 rm -f

# Debian packages, into build/deb.
deb:
	@dev/install-deps package
	@JOBS=$(JOBS) dev/make-deb

# Tests packages and docs/install.md, command by command, in a separate machine (namespaces, overlay, systemd). Root only.
# Packages and source are tested in parallel, each as soon as it is built, because both tests mostly wait.
PACKAGE_TEST = /usr/bin/python3 -B -m pytest -q -p no:cacheprovider --durations=0 --durations-min=1

test-packages: deps
	@dev/install-deps package
	@$(MAKE) --no-print-directory -j2 --output-sync=target test-package-install test-package-source

test-package-install: deb
	@$(PACKAGE_TEST) tests/package/test_install.py

# The release is built once, before the test; each test machine uses that build.
test-package-source: release
	@$(PACKAGE_TEST) tests/package/test_source.py

# The load balancer, an agent and an example with 4 processes. TRAFFIC=1 sends some requests a second; PORT=8080 sets the port;
# ZOOKEEPER=1 keeps the tree in a real ZooKeeper, with two load balancers and two agents.
# Tests are not configured, so that less is installed; a build directory that has them is used as it is.
run: writable
	@dev/install-deps $(if $(filter-out 0,$(ZOOKEEPER)),zookeeper,run)
	@[ -e build/build.ninja ] || cmake --preset run >/dev/null
	@cmake --build --preset dev -j$(JOBS) --target resumelb resumelb-agent resumelbctl
	@examples/newspapers/run

# All tests except the end-to-end tests: less than a minute after a build.
check: deps all
	@$(CTEST) --test-dir build -LE e2e

# All tests at once: the others run while end-to-end tests wait.
test: deps all
	@$(CTEST) --test-dir build -j$(E2E_JOBS)

# The end-to-end tests that `make test` leaves out, in their short form.
test-marked: deps all
	@dev/install-deps models
	@RLB_ONLY_MARKED=1 $(CTEST) --test-dir build -L e2e -j$(E2E_JOBS)

# Benchmarks are built like the installed programs.
BENCHES = pool_bench conn_pool_bench counter_bench

bench:
	@dev/install-deps bench
	@cmake --preset release -DCMAKE_INSTALL_PREFIX=$(PREFIX) -DBUILD_TESTING=OFF >/dev/null
	@cmake --build --preset release -j$(JOBS) --target $(BENCHES) resumelb
	@for b in $(BENCHES); do build-release/bench/$$b || exit 1; done
	@bench/instructions --build build-release
	@bench/peers/run

# The long forms of tests: a million classes, sustained load with crashes, chaos and flat memory a hundred times as long, 90
# seeds of each adaptive scenario; and the tests marked `soak`, which `make test` leaves out.
soak: deps all
	@dev/install-deps models
	RLB_SIM_SEEDS=90 $(CTEST) --test-dir build -R '^sim\.adaptive$$'
	RLB_FLOOD=1000000 RLB_SOAK_ROUNDS=8 RLB_CHAOS_DEEDS=2000 RLB_MEMORY_REQUESTS=400000 $(CTEST) --test-dir build -L e2e

# Unit, oracle, sim and end-to-end tests under the address and undefined sanitizers; then the threaded ones under tsan.
asan: deps
	@cmake --preset asan >/dev/null
	@cmake --build --preset asan -j$(JOBS)
	@$(CTEST) --test-dir build-asan -LE "docs|style|e2e"
	@$(CTEST) --test-dir build-asan -L e2e -j$(ASAN_E2E_JOBS)

tsan: deps
	@cmake --preset tsan >/dev/null
	@cmake --build --preset tsan -j$(JOBS) --target thread_tests
	@TSAN_OPTIONS=suppressions=$(CURDIR)/tests/support/tsan.supp:print_suppressions=0 $(CTEST) --test-dir build-tsan -L thread

# The unit tests, built for arm64 and run by qemu. Left out: those with a ZooKeeper server, one that executes itself, one that reads
# its own entry in /proc, which qemu imitates, and two that do not end under qemu.
NOT_BY_QEMU = ^unit\.(program\.program|program\.upgrade|event\.log_writer|worker-agent\.process\.proc_table)$$

test-arm64: writable
	@dev/install-deps arm64
	@dev/arm64-sysroot build-arm64/sysroot
	@cmake --preset arm64 >/dev/null
	@cmake --build --preset arm64 -j$(JOBS)
	@$(CTEST) --test-dir build-arm64 -L unit -LE zookeeper -E '$(NOT_BY_QEMU)'

# Each parser for some seconds under libFuzzer, over the committed corpus. Everything is built, as clang is used only here and its
# warnings differ from those of gcc.
fuzz: deps
	@cmake --preset fuzz >/dev/null
	@cmake --build --preset fuzz -j$(JOBS)
	@$(CTEST) --test-dir build-fuzz -L fuzz

# Lines and branches that all tests cover, per directory. Counts of earlier runs are deleted first.
coverage:
	@dev/install-deps coverage
	@cmake --preset coverage >/dev/null
	@cmake --build --preset coverage -j$(JOBS)
	@find build-coverage -name '*.gcda' -delete
	@$(CTEST) --test-dir build-coverage -LE "docs|style"; result=$$?; dev/coverage-table build-coverage && exit $$result

format:
	@git ls-files '*.c' '*.h' | xargs clang-format-14 -i

lint: all
	@dev/check.sh --lint

clean:
	@rm -rf build build-*
