# A thin front of meson: what people type. The build itself is in meson.build.
#
#   make          build/anybox and build/boxinit      make test     all tests
#   make run      build, then `anybox demo`           make check    analyzers, TSan, more tests
#   make install  DESTDIR, PREFIX (/usr/local)        make bench    tables of ratios
#   make dist     a .deb and a tarball in dist/       make fuzz     libFuzzer, 60 s a target
#   make docs     docs/tools.md, docs/config.md       make test-sdk official SDK clients
#   make format   clang-format                        make test-vm  in a virtual machine
#   make clean                                        make conformance  the official MCP suite
#   make agents   boxinit for ARM hosts               make test-browser  /docs in chromium
#
# Each target first installs the Debian packages it lacks (scripts/setup.sh).

PREFIX  ?= /usr/local
DESTDIR ?=
PYTHON  := /usr/bin/python3
SECONDS_EACH ?= 60

# The seeds' program names: their users swap anybox in without touching a configuration.
LINKS := remote-sandbox-mcp mcp-sandbox mcp-python-sandbox opensandbox-mcp-server
BIN     = $(DESTDIR)$(PREFIX)/bin
LIBEXEC = $(DESTDIR)$(PREFIX)/libexec/anybox
DOC     = $(DESTDIR)$(PREFIX)/share/doc/anybox
# Only a profile for AppArmor 4 can allow user namespaces to one program. A DESTDIR is not
# this machine: a package installs its own (scripts/dist.sh).
APPARMOR_DIR ?= /etc/apparmor.d
PROFILE = $(APPARMOR_DIR)/anybox-boxinit

.PHONY: all build-tests run test check fuzz bench install uninstall dist docs format clean test-sdk test-vm test-browser conformance agents build-it
all: build-it

build-it:
	@scripts/setup.sh build
	@scripts/build.sh build

# Also the program with the conformance suite's fixtures, which tests use.
build-tests: build-it
	@scripts/build.sh build -- anybox boxinit anybox-conformance

# Optional: the agent for SSH hosts with another processor.
agents:
	@scripts/agents.sh

run: build-it
	@build/anybox demo

test: build-tests
	@scripts/setup.sh test
	@$(PYTHON) scripts/run-tests.py

check: build-tests
	@scripts/setup.sh check
	@scripts/check.sh

fuzz:
	@scripts/setup.sh check
	@scripts/fuzz.sh $(SECONDS_EACH)

bench: build-tests
	@scripts/setup.sh bench
	@tests/bench/run

test-sdk: build-it
	@scripts/setup.sh sdk
	@tests/sdk/run

conformance: build-tests
	@tests/conformance/run

test-browser: build-it
	@scripts/setup.sh browser
	@tests/browser/run

test-vm: build-it
	@tests/vm/run

# Without packages and compilers when the programs are there: `make && sudo make install`.
install:
	@test -x build/anybox -a -x build/boxinit || $(MAKE) --no-print-directory all
	install -d $(BIN) $(LIBEXEC) $(DOC)
	install -m 755 build/anybox $(BIN)/anybox
	install -m 755 build/boxinit $(LIBEXEC)/boxinit
	for agent in build/boxinit-*; do \
	    if [ -f $$agent ]; then install -m 755 $$agent $(LIBEXEC)/ || exit 1; fi; done
	for name in $(LINKS); do ln -sfn anybox $(BIN)/$$name; done
	for file in README.md README.zh-CN.md NEWS.md SECURITY.md LICENSE docs/*.md; do \
	    if [ -f $$file ]; then install -m 644 $$file $(DOC)/ || exit 1; fi; done
	if [ -z "$(DESTDIR)" ] && [ -e $(APPARMOR_DIR)/abi/4.0 ]; then \
	    sed 's|@BOXINIT@|$(LIBEXEC)/boxinit|' packaging/anybox-boxinit.apparmor >$(PROFILE) && \
	    { apparmor_parser -r $(PROFILE) || echo "$(PROFILE) is not loaded; see anybox doctor"; }; fi

uninstall:
	rm -f $(BIN)/anybox $(addprefix $(BIN)/,$(LINKS))
	rm -rf $(LIBEXEC) $(DOC)
	if [ -z "$(DESTDIR)" ] && [ -e $(PROFILE) ]; then \
	    apparmor_parser -R $(PROFILE) || :; rm -f $(PROFILE); fi

dist: build-it
	@scripts/dist.sh

docs: build-it
	@scripts/gen-docs.sh docs

format:
	@scripts/setup.sh check
	@git ls-files '*.c' '*.h' | xargs clang-format-14 -i

clean:
	rm -rf build build-* dist
	find tests scripts -name __pycache__ -prune -exec rm -rf {} +
