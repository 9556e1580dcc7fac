# Copyright (c) 2026, fabric.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Front door of the checkout. Longer work lies in tools/, one readable script each.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

# make PYTHON=/path/to/python3.13 .venv     another interpreter than the one that would be picked
PYTHON ?=
# make unit ARGS="-k selectors -x"          more arguments for the program behind a target
ARGS ?=
# SIZES="--only site --site 5000"            benchmark: which parts, how many hosts (python benchmarks/playbooks.py --help)
SIZES ?=
export FABRIC_RDMA_SIZES = $(SIZES)
# REPOSITORY=https://...                     release: where the sources are
REPOSITORY ?=
export REPOSITORY
# KEEP_LAB=1                                demo leaves the nodes running
KEEP_LAB ?=
export KEEP_LAB

# Tests wait for daemons and for each other's processes: one more than there are processors keeps all of these at work.
WORKERS = $(shell echo $$(($$(nproc) + 1)))

# Tools of the virtual environment call each other by name.
export PATH := $(CURDIR)/.venv/bin:$(PATH)

# What Python has compiled is kept, also in a shell that says otherwise: tests start thousands of processes.
export PYTHONDONTWRITEBYTECODE :=

# What runs many playbooks compiles modules and collections once, not in each process (tools/bytecode.py).
lint integration receptor driver kubernetes cluster networks dranet runtimes matrix molecule scenarios: export PYTHONPATH := $(CURDIR)/.venv/bytecode

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z.-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: .venv/.complete ## Boot two RDMA nodes, run site.yml on them, show the report (no cluster, no rollout; KEEP_LAB=1 keeps them)
	@tools/demo

.PHONY: demo-cluster
demo-cluster: .venv/.complete ## The same with three nodes that are a Kubernetes cluster, and a rollout of the real device plugin (built once, 5 to 15 minutes)
	@tools/demo cluster

# Other people's recordings, where they lie beside the checkout.
RECORDED = $(if $(wildcard ../shared/captures),recorded)
SAY_WHAT_IS_LEFT_OUT = $(if $(RECORDED),,echo "No recordings in ../shared/captures: make recorded is left out.")
test everything: export FABRIC_RDMA_LEFT_OUT := $(if $(RECORDED),,recorded)

# The nodes of molecule leave a core idle for some of their time: what has no time limits takes it. So do bounds, which run one test after
# the other.
.PHONY: test
test: .venv/.complete ## Run what CI runs: lint, docs, bounds, sanity, unit, integration, receptor, matrix, molecule (not: driver, kubernetes, cluster, networks, dranet, runtimes, judges)
	@# in the foreground: a stage in the background cannot ask for a password
	@for profile in browser kubernetes judges; do tools/apt-install --profile $$profile || exit; done
	@$(SAY_WHAT_IS_LEFT_OUT)
	@tools/test molecule+lint,docs,sanity unit+bounds $(RECORDED) integration receptor+matrix

.PHONY: everything
everything: .venv/.complete ## Run that and all that it leaves out, with one table at the end (more than three hours)
	@# in the foreground: a stage in the background cannot ask for a password
	@for profile in test lab browser judges kubernetes; do tools/apt-install --profile $$profile || exit; done
	@$(SAY_WHAT_IS_LEFT_OUT)
	@tools/test lint,docs,bounds+sanity+programs scenarios+kubernetes,judges+unit,integration networks dranet driver runtimes receptor $(RECORDED)

.PHONY: check
check: .venv/.complete ## Lint, check types, run the unit tests that need no real part of a node: the inner loop, under five minutes
	@tools/test lint+quick

.PHONY: lint
lint: .venv/.complete ## Run every linter, type checker and documentation check
	@tools/lint

.PHONY: format
format: .venv/.complete ## Format the Python code
	@ruff check --no-cache --fix --quiet . || true
	@ruff format --no-cache .

.PHONY: unit
unit: .venv/.complete ## Run the unit tests, also on real containerds and dracut
	@tools/apt-install --profile test
	@tools/apt-install --profile browser
	@[ -n "$${FABRIC_RDMA_CONTAINERDS:-}" ] || python tools/containerds.py > /dev/null
	@python -m pytest -q -n $(WORKERS) --maxprocesses=4 -m "not captures" tests/unit $(ARGS)

.PHONY: recorded
recorded: .venv/.complete ## Run the unit tests over nodes and outputs that others have recorded, which have to lie in ../shared/captures
	@python -m pytest -q -s -m captures tests/unit $(ARGS)

.PHONY: quick
quick: .venv/.complete ## Run the unit tests of make check: without containerds, dracut, kills at each step, odd values for each field and thousands of hosts, with fewer examples
	@tools/apt-install --profile test
	@FABRIC_RDMA_SKIPS= FABRIC_RDMA_HYPOTHESIS=check python -m pytest -q -n $(WORKERS) --maxprocesses=4 -m "not parts and not captures" tests/unit $(ARGS)

.PHONY: sanity
sanity: .venv/.complete ## Run ansible-test sanity, and check the code of the nodes with the other Pythons that are here
	@tools/sanity

.PHONY: integration
integration: .venv/.complete ## Build the collection, install it elsewhere, run its playbooks and roles there: captures, stand-ins, a booted systemd, a light node
	@tools/apt-install --profile test
	@tools/apt-install --profile lab
	@python -m pytest -q -n $(WORKERS) --maxprocesses=3 -m integration tests/integration $(ARGS)

.PHONY: programs
programs: .venv/.complete ## Build Kubernetes and the device plugin, which scenarios run, where they are not built yet (5 to 15 minutes), and start each
	@nice -n 19 python tools/programs.py

.PHONY: receptor
receptor: .venv/.complete ## Run jobs as AWX does, on execution nodes of Receptor on this machine (five minutes and more)
	@python -m pytest -q -s -m integration tests/receptor $(ARGS)

.PHONY: driver
driver: .venv/.complete ## Run the scenario driver: driver stacks that DKMS really builds on an emulated node (half an hour and more)
	@SCENARIOS=driver tools/molecule $(ARGS)

.PHONY: kubernetes
kubernetes: .venv/.complete ## Run the scenario kubernetes: a real control plane (built once, 5 to 15 minutes, then cached)
	@SCENARIOS=kubernetes tools/molecule $(ARGS)

# Definitions of the operator's releases, where they lie beside the checkout; CI has to have some. What the running plugin gives takes seconds.
RELEASES = $(if $(CI)$(FABRIC_RDMA_CRDS)$(wildcard ../shared/crds),tests/cluster/test_operator.py::test_every_release_of_the_operator_takes_the_objects)
PLUGIN = $(addprefix tests/judges/test_device_plugins.py::,test_a_running_plugin_gives_what_was_planned \
  test_a_running_plugin_gives_what_was_planned_of_functions_that_the_lab_lacks test_the_type_of_a_link_counts)

.PHONY: matrix
matrix: .venv/.complete ## Check modules that speak to an API server, objects for each operator release, what the running device plugin gives (built once, 5 to 15 minutes)
	@for profile in kubernetes judges; do tools/apt-install --profile $$profile || exit; done
	@$(if $(RELEASES),,echo "No definitions of the Network Operator in ../shared/crds: objects for its releases are left out.")
	@python -m pytest -q -s -m "cluster or judges" tests/cluster/test_matrix.py $(RELEASES) $(PLUGIN) $(ARGS)

.PHONY: judges
judges: .venv/.complete ## Compare plans with what the device plugins' own code offers, and with what a running one gives (built once, 1 to 5 minutes)
	@tools/apt-install --profile judges
	@python -m pytest -q -s -m judges tests/judges $(ARGS)

.PHONY: control-plane
control-plane: .venv/.complete ## Open a shell with KUBECONFIG for such a control plane; it ends with the shell
	@python tests/cluster/cluster.py run -- bash

.PHONY: cluster
cluster: .venv/.complete ## Run the scenario cluster: what the scenario pods has, with a third node, and changes and faults of it (an hour and more)
	@SCENARIOS=cluster tools/molecule $(ARGS)

.PHONY: networks
networks: .venv/.complete ## Run the scenario networks: real Multus, macvlan and Whereabouts, Pods that reach each other on two rails (half an hour)
	@SCENARIOS=networks tools/molecule $(ARGS)

.PHONY: dranet
dranet: .venv/.complete ## Run the scenario dranet: the real DRANET, Pods that get functions by claims, a class that goes there and back (half an hour)
	@SCENARIOS=dranet tools/molecule $(ARGS)

.PHONY: runtimes
runtimes: .venv/.complete ## Run the scenario runtimes: three nodes, three generations of containerd, faults of disks and of systemd (half an hour)
	@SCENARIOS=runtimes tools/molecule $(ARGS)

.PHONY: molecule
molecule: .venv/.complete ## Run the scenarios that make test runs (default, pods, waves) from create to destroy
	@tools/molecule $(ARGS)

.PHONY: scenarios
scenarios: .venv/.complete ## Run the scenarios of make everything that share two cores best: cluster, the longest, with the tests of pods, beside default and waves
	@SCENARIOS="cluster default waves" tools/molecule $(ARGS)

.PHONY: lab
lab: .venv/.complete ## Boot the lab's nodes and leave them running (make lab-ssh, make lab-absent)
	@tools/lab present $(ARGS)

.PHONY: lab-cluster
lab-cluster: .venv/.complete ## Boot them as a Kubernetes cluster (.lab/control-plane/kubeconfig); what it runs is built once, 5 to 15 minutes
	@tools/lab present --inventory inventories/cluster $(ARGS)

.PHONY: lab-status
lab-status: .venv/.complete ## Say which nodes of the lab run
	@tools/lab status $(ARGS)

.PHONY: lab-ssh
lab-ssh: .venv/.complete ## Open a shell on a node of the lab (NODE=lab2 for another than the first)
	@tools/lab ssh "$(NODE)"

.PHONY: lab-absent
lab-absent: .venv/.complete ## Stop the lab's nodes and delete their disks (the cached image stays)
	@tools/lab absent $(ARGS)

.PHONY: benchmark
benchmark: .venv/.complete ## Measure ib_facts on a node with 8 HCAs, the plan and the report of up to 10,000 nodes, and whole runs of playbooks, against bounds
	@tools/apt-install --profile browser
	@tools/apt-install --profile benchmark
	@python -m pytest -q -rP -m benchmark benchmarks $(ARGS)

.PHONY: bounds
bounds: .venv/.complete ## Measure the same on smaller clusters, against bounds that only a mistake of the algorithm breaks
	@tools/apt-install --profile browser
	@FABRIC_RDMA_BOUNDS=generous python -m pytest -q -rP -m benchmark benchmarks $(ARGS)

.PHONY: screenshots
screenshots: .venv/.complete ## Take pictures of reports on made-up clusters of 2, 72 and 1,000 nodes, light, dark, on a phone, printed (out/screenshots)
	@tools/apt-install --profile browser
	@python tools/screenshots.py $(ARGS)

.PHONY: picture
picture: .venv/.complete ## Take the picture of a report that README.md shows (docs/report.webp)
	@tools/apt-install --profile browser
	@python tools/screenshots.py --documentation

.PHONY: faults
faults: .venv/.complete ## Show the faults of docs/faults.md with the number of runs of each
	@python tools/faults.py

.PHONY: docs
docs: .venv/.complete ## Build the documentation with the reference of modules, filters and roles as HTML (out/docs/html); a warning fails
	@tools/docs

.PHONY: changelog
changelog: .venv/.complete ## Write CHANGELOG.rst from the fragments for the version in galaxy.yml
	@antsibull-changelog release --reload-plugins --refresh --update-existing \
	  --version "$$(awk '$$1 == "version:" {print $$2}' galaxy.yml)" $(ARGS)

.PHONY: release
release: .venv/.complete ## Make a release of what is committed: changelog, tarball (out/release), the checks of Galaxy's importer; publishes nothing
	@tools/release

.PHONY: clean
clean: ## Stop the lab and delete what make made here (~/.cache/fabric.rdma stays: images, programs)
	@if [ -d .lab ] && [ -e .venv/.complete ]; then tools/lab absent; fi
	@rm -rf .venv .collections .cache .ansible .hypothesis .mypy_cache .pytest_cache .ruff_cache out fabric-rdma-*.tar.gz
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv: .venv/.complete
.venv/.complete: requirements-dev.txt collections/requirements.yml
	@tools/setup-venv $(PYTHON)
