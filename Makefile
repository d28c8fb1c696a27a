# The words that other tools rely on; `make` alone lists them. Every target does its own set-up.
#
# Packages are installed when package-lock.json has changed, and come with the Node that runs everything, so that
# any Node from 20 on is enough to begin. Settings are given as variables: make demo PORT=9000 MARKET=full

.POSIX:
.SUFFIXES:
.DEFAULT_GOAL := help
.PHONY: help demo up console down clean test check bench e2e fault soak full audit sbom

PATH := $(CURDIR)/node_modules/.bin:$(PATH)
export PATH

MARKETLOG := node services/cli/main.ts
INSTALLED := node_modules/.marketlog-installed

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

demo: console ## everything in this terminal on the demo market; Ctrl-C stops all of it
	@exec $(MARKETLOG) demo

up: console ## the same in the background; returns when prices are live
	@exec $(MARKETLOG) up

down: $(INSTALLED) ## stop what `make up` started; data stays
	@exec $(MARKETLOG) down

clean: $(INSTALLED) ## stop and wipe all data
	@exec $(MARKETLOG) clean

test: $(INSTALLED) ## the gate: types, lint, boundaries; unit, contract and integration tests; ONLY='file…' some of them
	@[ -n "$(ONLY)" ] || npm run --silent check
	@exec node test/run.ts gate $(ONLY)

check: $(INSTALLED) ## types, lint, boundaries, event schemas, packages, unused code
	@exec npm run --silent check

bench: $(INSTALLED) ## measure against limits in the same run; ONLY=book,reads some of it, COMPARE=commit what moved since
	@exec npm run --silent bench -- $(ONLY:%=--only=%) $(COMPARE:%=--compare=%)

e2e: console ## `make up` and its commands as a user runs them
	@exec node test/run.ts e2e $(ONLY)

fault: $(INSTALLED) ## kills, freezes, brokers and stores that break, with ledgers; half an hour
	@exec node test/run.ts fault $(ONLY)

soak: $(INSTALLED) ## the same for hours; FAULTS=20 MINUTES=5 shortens the test of three brokers
	@exec node test/run.ts soak $(ONLY)

audit: $(INSTALLED) ## advisories and signatures of all packages; fails where the registry gives no such answers
	@npm audit && npm audit signatures

sbom: $(INSTALLED) ## what the platform is made of, as CycloneDX on standard output
	@exec npm sbom --sbom-format cyclonedx --package-lock-only --omit dev

full: $(INSTALLED) ## every row of 41 providers at full size against an independent fold; takes gigabytes
	@exec node test/run.ts full

# Does nothing while a build of the same sources is there.
console: $(INSTALLED)
	@npm run --silent console:build

$(INSTALLED): package-lock.json
	@sh services/cli/install.sh
	@touch $@
