# The image's name and tag; the speakers run the manager's image.
IMG ?= lanyard:dev
# The version that the chart and the bundle bear, and the channel in which the catalogs offer it.
VERSION ?= 0.1.0
CHANNEL ?= candidate
# Where the bundles' images are, tagged v and their version, and the folders of the bundles in a catalog, the oldest first.
BUNDLE_IMAGES ?= lanyard-bundle
BUNDLES ?= bundle
# The lab's name: labs of different names run side by side.
LANYARD_LAB ?= lanyard
# How long the removal waits until kube-proxy is given back, where spec.kubeProxy.onDelete is Restore: one node takes about ten seconds.
RESTORE_TIMEOUT ?= 30m

# One set of flags for every build and test: what one has compiled, the other finds in the cache. The same sources make the same bytes,
# wherever they are and whoever owns them.
export CGO_ENABLED = 0
export GOFLAGS = -trimpath -buildvcs=false

SHELL = /usr/bin/env bash -o pipefail
.SHELLFLAGS = -ec
BIN := $(CURDIR)/bin
TOOLS := $(CURDIR)/internal/tools
LAB := $(BIN)/lab --name $(LANYARD_LAB)
KUBECTL ?= kubectl

.PHONY: all
all: build

##@ General

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*##"; printf "Usage: make TARGET\n"} /^[a-zA-Z0-9_-]+:.*##/ {printf "  %-16s %s\n", $$1, $$2} /^##@/ {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)

##@ Development

.PHONY: manifests
manifests: $(BIN)/controller-gen ## Generate the CRDs and the manager's roles.
	$(BIN)/controller-gen crd paths=./api/... output:crd:dir=config/crd/bases
	$(BIN)/controller-gen rbac:roleName=lanyard-manager paths=./controllers/... output:rbac:dir=config/rbac

.PHONY: generate
generate: $(BIN)/controller-gen ## Generate the API's deep copies.
	$(BIN)/controller-gen object paths=./api/...

.PHONY: plugin
plugin: ## Build the kubectl plugin: put bin/kubectl-lanyard into your PATH.
	go build -ldflags "-s -w" -o $(BIN)/ ./cmd/kubectl-lanyard

.PHONY: fmt
fmt: ## Format the code.
	gofmt -w $$(git ls-files '*.go')

.PHONY: vet
vet: ## Run go vet.
	go vet ./...

.PHONY: lint
lint: $(BIN)/golangci-lint ## Run the linters.
	$(BIN)/golangci-lint run ./...

.PHONY: verify
verify: manifests generate build-installer chart bundle ## Check that what is generated is committed.
	git diff --exit-code -- api bundle config dist

# -count=1: a remembered result would hide what the tests look at through other programs, such as `go list` and the API server.
.PHONY: test
test: $(BIN)/helm ## Run all tests but those on the lab: pure, on virtual networks, and on a real API server.
	assets="$$(go run ./test/lab assets)" && KUBEBUILDER_ASSETS="$$assets" go test -count=1 ./...
	go -C test/bundle vet ./... && go -C test/bundle test -count=1 ./...

# E2E runs the suite on the lab's workstation.
E2E = $(LAB) exec k8s-ops -- $(BIN)/e2e.test --lab=$(BIN)/lab --lab-name=$(LANYARD_LAB) --root=$(CURDIR) -ginkgo.v

.PHONY: test-e2e
test-e2e: e2e-ready ## Replay the tutorial on the lab, change kube-proxy, restart everything, cut a cable.
	$(E2E) -ginkgo.timeout=30m -ginkgo.label-filter='!long'

.PHONY: test-e2e-full
test-e2e-full: e2e-ready ## As test-e2e, with all that takes long: changes under load and changes that go wrong, ipvs on kernels that have it, what a lab leaves behind.
	$(E2E) -ginkgo.timeout=2h
	test/lab/leftovers.sh $(BIN)/lab

.PHONY: e2e-ready
e2e-ready: lab-up images build-installer $(BIN)/helm
	go test -c -o $(BIN)/e2e.test ./test/e2e
	go build -o $(BIN)/ ./test/traffic/load ./test/traffic/solicit ./cmd/kubectl-lanyard
	$(LAB) image --binary $(BIN)/load --ref load:dev --out $(BIN)/load.tar
	$(LAB) load dist/lanyard.tar $(BIN)/load.tar

##@ Benchmark

# How many nodes the benchmark's lab has, how often each fault and the silent cut are inflicted, how many addresses there are, and which of the
# products, faults and placements of test/bench are measured.
BENCH_NODES ?= 3
BENCH_N ?= 20
BENCH_N_SILENT ?= 200
BENCH_VIPS ?= 1
BENCH_PRODUCTS ?= lanyard,metallb
BENCH_FAULTS ?= cut,cut-silent,kill-speaker,stop-speaker,term-speaker,kill-node,partition,drain,rollout,control
BENCH_PLACEMENTS ?= survivors,spread
# A lab of its own: nothing else disturbs what is measured there.
BENCH_LAB := $(BIN)/lab --name bench
PEERS := $(CURDIR)/test/bench/peers

.PHONY: bench
bench: bench-ready ## Measure failover, beside MetalLB, on a lab of its own: see test/bench. All of it takes a day.
	$(BENCH_LAB) exec k8s-ops -- $(BIN)/failover --lab=$(BIN)/lab --lab-name=bench --root=$(CURDIR) --out=$(CURDIR)/test/bench/results \
	  --version="$$(git describe --always --dirty 2>/dev/null)" --metallb-crds="$$(go -C $(PEERS) list -m -f '{{.Dir}}' go.universe.tf/metallb)/config/crd/bases" \
	  --products=$(BENCH_PRODUCTS) --faults=$(BENCH_FAULTS) --placements=$(BENCH_PLACEMENTS) --n=$(BENCH_N) --n-silent=$(BENCH_N_SILENT) --vips=$(BENCH_VIPS)

# How many faults are inflicted at random, in the order of which seed, and how many addresses are watched.
DISTURB ?= 300
SEED ?= 1

.PHONY: disturb
disturb: bench-ready ## Inflict faults at random on the benchmark's lab, and see that no address ever has two owners: half an hour.
	$(BENCH_LAB) exec k8s-ops -- $(BIN)/failover --lab=$(BIN)/lab --lab-name=bench --root=$(CURDIR) --out=$(CURDIR)/test/bench/results \
	  --vips=6 --disturb=$(DISTURB) --seed=$(SEED)

.PHONY: bench-costs
bench-costs: bench-ready ## Measure what a speaker costs, at rest and under ARP load, on the benchmark's lab: five minutes for each product.
	$(BENCH_LAB) exec k8s-ops -- $(BIN)/failover --lab=$(BIN)/lab --lab-name=bench --root=$(CURDIR) --out=$(CURDIR)/test/bench/results --costs \
	  --metallb-crds="$$(go -C $(PEERS) list -m -f '{{.Dir}}' go.universe.tf/metallb)/config/crd/bases" --products=$(BENCH_PRODUCTS) --vips=$(BENCH_VIPS)

# How many Services wait for addresses.
BENCH_PENDING ?= 100,1000

.PHONY: bench-allocation
bench-allocation: bench-ready ## Measure how long Services wait for addresses once there is a pool, and one more next to them, on the benchmark's lab.
	$(BENCH_LAB) exec k8s-ops -- $(BIN)/failover --lab=$(BIN)/lab --lab-name=bench --root=$(CURDIR) --out=$(CURDIR)/test/bench/results --pending=$(BENCH_PENDING) \
	  --metallb-crds="$$(go -C $(PEERS) list -m -f '{{.Dir}}' go.universe.tf/metallb)/config/crd/bases" --products=$(BENCH_PRODUCTS)

.PHONY: bench-takeover
bench-takeover: bench-ready plugin ## Have Lanyard take over from a running MetalLB on the benchmark's lab, and see that no address changes.
	$(BENCH_LAB) exec k8s-ops -- $(BIN)/failover --lab=$(BIN)/lab --lab-name=bench --root=$(CURDIR) --out=$(CURDIR)/test/bench/results --takeover \
	  --metallb-crds="$$(go -C $(PEERS) list -m -f '{{.Dir}}' go.universe.tf/metallb)/config/crd/bases" --products=metallb --vips=$(BENCH_VIPS)

.PHONY: bench-ready
bench-ready: images build-installer
	$(BENCH_LAB) up --nodes $(BENCH_NODES)
	go build -o $(BIN)/ ./test/bench/failover ./test/bench/failover/echo
	mkdir -p $(BIN)/peers
	go -C $(PEERS) build -o $(BIN)/peers/ go.universe.tf/metallb/controller go.universe.tf/metallb/speaker
	$(BENCH_LAB) image --binary $(BIN)/echo --ref echo:dev --out $(BIN)/echo.tar
	$(BENCH_LAB) image --binary $(BIN)/peers/controller,$(BIN)/peers/speaker --ref metallb:dev --out $(BIN)/metallb.tar
	$(BENCH_LAB) load dist/lanyard.tar $(BIN)/echo.tar $(BIN)/metallb.tar

.PHONY: bench-down
bench-down: $(BIN)/lab ## Remove the benchmark's lab.
	$(BENCH_LAB) down

##@ Build

.PHONY: build
build: ## Build the manager and the speaker.
	go build -ldflags "-s -w" -o $(BIN)/ ./cmd/manager ./cmd/speaker

.PHONY: run
run: install ## Run the manager here, against the cluster of your kubeconfig. It waits for the lead while one runs in the cluster.
	go run ./cmd/manager --namespace=lanyard-system --metrics-bind-address=0 --speaker-image=$(IMG)

.PHONY: images
images: build $(BIN)/lab ## Pack the image into dist/lanyard.tar, without a container engine. The Dockerfile does the same with one.
	mkdir -p dist
	$(BIN)/lab image --binary $(BIN)/manager,$(BIN)/speaker --ref $(IMG) --out dist/lanyard.tar

.PHONY: build-installer
build-installer: manifests $(BIN)/kustomize ## Write dist/install.yaml.
	mkdir -p dist
	$(BIN)/kustomize build config/default | sed 's|image: lanyard:dev|image: $(IMG)|' > dist/install.yaml

.PHONY: chart
chart: manifests ## Make the Helm chart in dist/chart from config.
	go run ./internal/packaging chart --version=$(VERSION) --image=$(IMG)

.PHONY: bundle
bundle: manifests ## Make the OLM bundle in bundle from config.
	go run ./internal/packaging bundle --version=$(VERSION) --channel=$(CHANNEL) --image=$(IMG)

.PHONY: catalog
catalog: bundle ## Make OLM catalogs of BUNDLES in dist/catalog: one that holds the bundles, one that names their images.
	go run ./internal/packaging catalog --bundle-images=$(BUNDLE_IMAGES) $(BUNDLES)

##@ Deployment

.PHONY: install
install: manifests $(BIN)/kustomize ## Install CRDs, namespace and roles, but no manager, into the cluster of your kubeconfig.
	$(BIN)/kustomize build config/crd | $(KUBECTL) apply --server-side -f -
	$(BIN)/kustomize build config/namespace | $(KUBECTL) apply --server-side -f -
	$(BIN)/kustomize build config/rbac | $(KUBECTL) apply --server-side -f -

.PHONY: uninstall
uninstall: $(BIN)/kustomize withdraw ## Remove what install made, and every object of its kinds.
	$(BIN)/kustomize build config/rbac | $(KUBECTL) delete --ignore-not-found -f -
	$(BIN)/kustomize build config/crd | $(KUBECTL) delete --ignore-not-found -f -
	$(BIN)/kustomize build config/namespace | $(KUBECTL) delete --ignore-not-found -f -

.PHONY: deploy
deploy: build-installer ## Install Lanyard into the cluster of your kubeconfig.
	$(KUBECTL) apply --server-side -f dist/install.yaml

.PHONY: undeploy
undeploy: build-installer withdraw ## Remove Lanyard from the cluster of your kubeconfig.
	$(KUBECTL) delete --ignore-not-found -f dist/install.yaml

# The manager takes addresses back before it goes: a Service should not show one that nobody answers for. And it gives kube-proxy back as it
# was found, where spec.kubeProxy.onDelete asks for that: without it, some nodes would run another mode than others until they are rebooted.
.PHONY: withdraw
withdraw:
	if $(KUBECTL) get crd clusternetworkings.networking.lanyard.dev >/dev/null 2>&1; then \
	  $(KUBECTL) delete clusternetworking --all; \
	  $(KUBECTL) -n lanyard-system wait --for=delete daemonset/lanyard-speaker --timeout=90s || \
	    echo "no manager runs that takes the addresses back: Services go on showing them until they are deleted"; \
	fi
	if $(KUBECTL) -n lanyard-system get configmap lanyard-kube-proxy --ignore-not-found -o jsonpath='{.data.restore}' | grep -qx pending; then \
	  echo "waiting until kube-proxy has its old settings back on every node"; \
	  $(KUBECTL) -n lanyard-system wait --for=jsonpath='{.data.restore}'=none configmap/lanyard-kube-proxy --timeout=$(RESTORE_TIMEOUT) || { \
	    echo "Nothing else is removed. What it waits for: $(KUBECTL) -n kube-system events --for configmap/kube-proxy"; \
	    echo "Mend that, and run this again; or remove Lanyard all the same: $(KUBECTL) delete -f dist/install.yaml"; \
	    exit 1; }; \
	fi

##@ Lab

.PHONY: demo
demo: lab-up images build-installer ## Do the whole tutorial on a lab cluster, with one object. The first run builds Kubernetes: about half an hour.
	test/demo.sh $(BIN)/lab $(LANYARD_LAB)

.PHONY: lab-up
lab-up: $(BIN)/lab ## Start the lab: a kubeadm cluster in network namespaces on this machine.
	$(LAB) up

.PHONY: lab-down
lab-down: $(BIN)/lab ## Remove the lab. The cache stays.
	$(LAB) down

##@ Tools

.PHONY: tools
tools: $(BIN)/lab $(BIN)/controller-gen $(BIN)/kustomize $(BIN)/helm $(BIN)/golangci-lint ## Build the tools, each at the version of internal/tools.

.PHONY: $(BIN)/lab
$(BIN)/lab:
	go build -o $@ ./test/lab

$(BIN)/controller-gen: $(TOOLS)/go.mod
	go -C $(TOOLS) build -o $@ sigs.k8s.io/controller-tools/cmd/controller-gen

$(BIN)/kustomize: $(TOOLS)/go.mod
	go -C $(TOOLS) build -o $@ sigs.k8s.io/kustomize/kustomize/v5

# Helm takes the Kubernetes version that it renders for without a cluster from how it was built.
HELM_KUBE := $(foreach p,pkg/chartutil pkg/lint/rules,-X helm.sh/helm/v3/$(p).k8sVersionMajor=1 -X helm.sh/helm/v3/$(p).k8sVersionMinor=37)
$(BIN)/helm: $(TOOLS)/go.mod
	go -C $(TOOLS) build -ldflags "-s -w $(HELM_KUBE)" -o $@ helm.sh/helm/v3/cmd/helm

$(BIN)/golangci-lint: $(TOOLS)/go.mod
	go -C $(TOOLS) build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
