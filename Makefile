# Every command of the project. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

GO ?= go
BENCH ?= .
BENCH_CALLS ?= --seconds 5
FUZZ ?= 2m
CHURN ?= -churn.calls 10000
MEASURE ?= .
SOAK ?= -soak.for 10m -soak.calls 10
PROGRAM := -trimpath -ldflags '-s -w' -o bin/voicebridge ./cmd/voicebridge
# Node.js for the tests, if .ci/install had to fetch one.
export PATH := $(CURDIR)/.ci/node/bin:$(PATH)

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Build and serve the page on http://127.0.0.1:8080 (needs Go, nothing else)
	@exec bin/voicebridge

.PHONY: build
build: go-version ## Build bin/voicebridge, one static binary
	@$(GO) list -deps ./cmd/voicebridge >/dev/null # shows what it downloads
	@n=$$(CGO_ENABLED=0 $(GO) build -n $(PROGRAM) 2>&1 | grep -c '/compile ' || true); \
	if [ "$$n" -gt 50 ]; then echo "Compiling $$n packages, among them SQLite and a JavaScript engine: some minutes the first time, seconds from then on."; fi
	@CGO_ENABLED=0 $(GO) build $(PROGRAM)

.PHONY: test
test: ## Install what the tests need (Debian), then check and test what a change needs
	@bash .ci/test

.PHONY: test-all
test-all: ## The same and what a release and a night need: soaks, pictures, more pairs of clients, all under the race detector
	@bash .ci/test nightly

.PHONY: gen
gen: go-version ## Regenerate files: queries (sqlc), docs/reference, the built page
	$(GO) tool -modfile=tools.mod sqlc generate
	$(GO) generate ./persistence
	$(GO) test ./web -run '^TestSchemas$$' -args -update
	$(GO) test ./cmd/voicebridge/internal/reference -update
	cd web/ui && npm ci && npm run build

.PHONY: lint
lint: go-version ## Run golangci-lint with .golangci.yaml
	@n=$$($(GO) build -n -modfile=lint.mod -o /dev/null github.com/golangci/golangci-lint/v2/cmd/golangci-lint 2>&1 | grep -c '/compile ' || true); \
	if [ "$$n" -gt 50 ]; then echo "Compiling golangci-lint, $$n packages: two to five minutes the first time."; fi
	$(GO) tool -modfile=lint.mod golangci-lint run

.PHONY: bench
bench: build ## Run the benchmarks (BENCH=regexp chooses some), then measure calls
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $$($(GO) list ./... | grep -v /measure$$)
	bin/voicebridge bench $(BENCH_CALLS)

.PHONY: soak
soak: go-version ## Make calls under random faults and compare what was said with SQL (SOAK='-soak.seed N' repeats one, -soak.engine E chooses an engine)
	$(GO) test -race -tags nightly ./e2e -run '^TestSoak$$' -count 1 -timeout 60m -v -args $(SOAK)

.PHONY: measure
measure: build ## Measure set-ups, bad networks, turns and how costs grow with amounts (MEASURE=regexp chooses some); it checks nothing
	$(GO) test ./measure -run '^$$' -bench '$(MEASURE)' -benchtime 5x -timeout 60m

.PHONY: churn
churn: go-version ## Make and end 10,000 calls, and compare goroutines and heap (CHURN='-churn.calls N')
	$(GO) test -tags nightly ./e2e -run '^TestChurn$$' -count 1 -parallel 8 -timeout 120m -v -args $(CHURN)

.PHONY: fuzz
fuzz: go-version ## Send random input to everything that strangers can reach (FUZZ=2m for each target)
	@bash .ci/fuzz $(FUZZ)

.PHONY: audit
audit: go-version ## Look for known vulnerabilities in the dependencies, if their databases are reachable
	@bash .ci/audit

.PHONY: go-version
go-version:
	@bash .ci/go-version
