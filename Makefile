# What each target does: make help. Nothing here is needed to use or test the
# project: the README's two commands need only Go and git.

GO        ?= go
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT    ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
EPOCH     ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
LDFLAGS   := -s -w -X github.com/fleetworkspace/fleet/pkg/plan/version.Version=$(VERSION) -X github.com/fleetworkspace/fleet/pkg/plan/version.Commit=$(COMMIT)
BINARIES  := fleet fleet-controller fleet-agent fleet-sandbox
TOOL      := $(GO) tool -modfile=tools/go.mod

# As go run ./hack/test compiles, so that all targets share the build cache: without cgo,
# and without the folder of the clone in compiled packages.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

.DEFAULT_GOAL := help
.PHONY: help build test e2e race mutants lint generate golden alerts verify bench bench-fanout bench-agent soak images chart-repo clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

build: ## build all binaries into bin/ (static, without cgo)
	@mkdir -p bin
	@for b in $(BINARIES); do echo "build $$b"; $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/$$b ./cmd/$$b || exit 1; done

test: ## all tests that need no root, those on API servers included
	$(GO) run ./hack/test

e2e: ## a fleet of real pods; needs root and, with E2E=-install, apt for what is missing
	$(GO) run ./hack/e2e $(E2E)

race: ## unit tests of what starts goroutines, and the loops of manager and agent, under the race detector
	$(GO) run ./hack/test -race

mutants: ## break one rule after the other, and see that the unit tests notice each
	$(GO) run ./hack/mutants

lint: ## golangci-lint with the rules of .golangci.yml
	$(TOOL) golangci-lint run

generate: ## deep copies, CRDs, JSON schemas, generated docs
	$(GO) run ./hack/generate

golden: ## rewrite the golden files of the unit tests; read the diff before you commit it
	$(GO) test ./pkg/... ./cmd/... -update

alerts: ## check the chart's alerts with promtool, and run their tests
	hack/alerts.sh

verify: ## generated files are current, modules tidy, layers intact
	hack/verify.sh

bench: ## print the figures of docs/benchmarks.md; BENCH="-only reading" runs a part
	$(GO) run ./benchmarks sources $(BENCH)

bench-fanout: ## print the figures of the fan-out; BENCH="-scenarios 500x1" measures a part
	$(GO) run ./benchmarks fanout $(BENCH)

bench-agent: ## print the figures of one agent; BENCH="-only latency" measures a part
	$(GO) run ./benchmarks agent $(BENCH)

soak: ## the long quiet window and other tests that take their time
	$(GO) run ./hack/test -soak

images: ## the images of manager and agent as OCI archives in dist/images, for amd64 and arm64
	SOURCE_DATE_EPOCH=$(EPOCH) $(GO) run ./hack/image -out dist/images -arch amd64,arm64 -commit $(COMMIT)

chart-repo: ## the charts as a Helm repository in dist/charts, for Rancher too; CHART_URL=... is where it will be served
	SOURCE_DATE_EPOCH=$(EPOCH) $(GO) run ./hack/chartrepo -out dist/charts -rancher -url "$(CHART_URL)"

clean: ## remove bin/
	rm -rf bin
