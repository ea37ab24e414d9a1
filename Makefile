# make demo   sets up what is missing and runs a real training on a real cluster in a box
# make test   sets up what is missing and passes all tests
# make setup  only sets up
# make docs   builds the docs site: build/docs/index.html
# make generate  writes anew what follows from the code: TOSCA types, tables of docs/, schemas
# make audit  checks what it is installed with: the pins, and known vulnerabilities where they can be asked for
# make lock   renews what may be installed, with the hashes: for this project and for the catalogue

SHELL := /bin/bash
PYTHON ?= $(firstword $(foreach each,python3.13 python3.12 python3.11 python3,$(shell $(each) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(1)' 2> /dev/null && echo $(each))))
ROOT := $(if $(filter 0,$(shell id -u)),,sudo -n)
PACKAGES := openssh-client rsync python3-venv
VERSION := $(shell cat pyproject.toml galaxy.yml requirements/*.txt Makefile | sha256sum | cut -c 1-16)
READY := .venv/.ready-$(VERSION)
OPERA_READY := .venv-opera/.ready-$(VERSION)
TOOLS_READY := .venv-tools/.ready-$(VERSION)
DOCS_READY := .venv-docs/.ready-$(VERSION)
BLUEPRINT ?= mnist-pytorch-slurm
# a folder with MNIST's own files, and the number of epochs, for make demo
export MNIST EPOCHS
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Hundreds of processes import this project in the tests: what one has compiled serves the others.
unexport PYTHONDONTWRITEBYTECODE

# Nothing is installed but what the lock has the hash of; this project itself is built with what is there.
LOCKED = pip install -q --no-build-isolation --require-hashes -r
OWN = pip install -q --no-build-isolation --no-deps -e .
WITHOUT_LOCATIONS = 2> >(grep -v "^WARNING: Location" >&2)

.PHONY: setup demo test unit component integration thorough lint lint-types lint-style lint-rooms lint-roles docs generate audit lock clean
.DELETE_ON_ERROR:

setup: $(READY) $(OPERA_READY)

# What is asked of dpkg is there already on most machines, and then neither root nor a network is needed.
.venv/.packages:
	@missing=$$(for each in $(PACKAGES); do dpkg -s $$each > /dev/null 2>&1 || echo $$each; done); \
	if [ -n "$$missing" ]; then \
		echo "installing $$missing"; \
		$(ROOT) true || { echo "error: install these packages first: $$missing" >&2; exit 1; }; \
		$(ROOT) env DEBIAN_FRONTEND=noninteractive apt-get update -q > /dev/null && \
		$(ROOT) env DEBIAN_FRONTEND=noninteractive apt-get install -q -y $$missing > /dev/null || exit 1; \
	fi
	@[ -n "$(PYTHON)" ] || { echo "error: Python 3.11 or later is needed (python3.11 on Debian 12, python3.12 on Ubuntu 24.04)" >&2; exit 1; }
	@mkdir -p .venv && touch $@

$(READY): | .venv/.packages
	@echo "preparing .venv with the modak command"
	@$(PYTHON) -m venv .venv
	@.venv/bin/$(LOCKED) requirements/modak.txt $(WITHOUT_LOCATIONS)
	@.venv/bin/$(OWN)
	@touch $@

# opera pins a PyYAML that is built here, with an older Cython.
$(OPERA_READY): | .venv/.packages
	@echo "preparing .venv-opera with opera"
	@$(PYTHON) -m venv .venv-opera
	@.venv-opera/bin/$(LOCKED) requirements/opera-build.txt $(WITHOUT_LOCATIONS)
	@.venv-opera/bin/$(LOCKED) requirements/opera.txt $(WITHOUT_LOCATIONS)
	@.venv-opera/bin/$(OWN)
	@touch $@

demo: $(READY)
	@if [ "$$(id -u)" != 0 ] && ! sudo -n true 2> /dev/null; then \
		echo "The testbed needs root, or sudo without a password, and here is neither." >&2; \
		echo "Without it, train on this machine: .venv/bin/modak deploy mnist-pytorch-local" >&2; \
		exit 1; \
	fi
	@.venv/bin/modak testbed up
	@set -- $(BLUEPRINT); \
	if [ -n "$$MNIST" ]; then set -- "$$@" --input "mnist=[\"$$(realpath -- "$$MNIST")\"]"; fi; \
	if [ -n "$$EPOCHS" ]; then set -- "$$@" --input "epochs=$$EPOCHS"; fi; \
	.venv/bin/modak deploy "$$@"

# Beside the unit tests, which compute, run those that wait half of the time.
test: lint
	@echo "unit and component tests, side by side; each prints its output when it ends"
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target unit component
	@$(MAKE) --no-print-directory integration

# Two at a time: what checks the types takes as long as all others together.
lint: $(READY)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint-types lint-style lint-rooms lint-roles

lint-types:
	.venv/bin/mypy

lint-style:
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

lint-rooms:
	.venv/bin/lint-imports

lint-roles:
	.venv/bin/ansible-lint --offline -q

# One folder that is read from the disk as from a server; a link to nowhere, or a page outside of the navigation, fails.
docs: $(DOCS_READY)
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict
	@echo "build/docs/index.html"

generate: $(READY)
	.venv/bin/python -m generate

# The thousands of small files of the unit tests need no disk: they lie in memory where that has a gigabyte for them.
MEMORY = $(shell [ -w /dev/shm ] && [ "$$(df -Pk /dev/shm | awk 'END { print $$4 }')" -gt 1000000 ] && echo /dev/shm)

# What tests of one file share, plans, pages and data, is made by one worker and not by each.
BY_FILE = --dist loadfile --no-loadscope-reorder

unit: $(READY)
	PYTEST_DEBUG_TEMPROOT=$(MEMORY) .venv/bin/pytest -q -o tmp_path_retention_count=1 -n auto $(BY_FILE) --durations=10 -m "not component and not thorough" tests/unit

# Those of the unit tests that start processes, bash, Python, ssh to nowhere, or a server, and wait half of the time.
component: $(READY)
	.venv/bin/pytest -q -n $$(( 2 * $$(nproc) )) --durations=10 -m component tests/unit

# Tests of a cluster wait more than they compute: three workers share the files of tests, each with a testbed of its own.
WORKERS = -n 3 $(BY_FILE)

integration: $(READY) $(OPERA_READY)
	.venv/bin/pytest -v $(WORKERS) --durations=10 -m "not thorough" tests/integration

# The cases that make test leaves out, for their time; and examples of properties that no run has tried before.
thorough: $(READY) $(OPERA_READY)
	.venv/bin/pytest -q -n auto -m "hypothesis or thorough" --hypothesis-profile=search tests/unit
	.venv/bin/pytest -v $(WORKERS) --durations=10 -m thorough tests/integration

# The first part needs no network, and is among the unit tests; the second asks the package index for advisories.
audit: $(READY)
	@.venv/bin/pytest -q tests/unit/test_dependencies.py
	@$(MAKE) --no-print-directory $(TOOLS_READY)
	@.venv-tools/bin/pip-audit --progress-spinner off --strict --disable-pip -r requirements/modak.txt 2> >(tail -n 1 >&2) || \
		{ echo "The pins are right. What pip-audit says of known vulnerabilities, or of asking for them, is above." >&2; exit 3; }

lock: $(READY) $(TOOLS_READY)
	PATH=$(CURDIR)/.venv-tools/bin:$$PATH .venv/bin/python requirements/lock.py

$(TOOLS_READY): | .venv/.packages
	@$(PYTHON) -m venv .venv-tools
	@.venv-tools/bin/$(LOCKED) requirements/tools.txt $(WITHOUT_LOCATIONS)
	@touch $@

$(DOCS_READY): | .venv/.packages
	@echo "preparing .venv-docs with mkdocs"
	@$(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/$(LOCKED) requirements/docs.txt $(WITHOUT_LOCATIONS)
	@touch $@

clean:
	-.venv/bin/modak testbed down --purge
	-for each in .modak/workers/*; do \
		[ ! -d $$each ] || .venv/bin/ansible-playbook playbooks/testbed.yml -e testbed_state=purged \
			-e testbed_name=$$(basename $$each) -e testbed_directory=$(CURDIR)/$$each; \
	done
	rm -rf .venv .venv-opera .venv-tools .venv-docs build .modak
