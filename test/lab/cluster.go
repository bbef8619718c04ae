package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

// marks are files on a node's disk that say how far it has come.
const (
	markImages = "images-loaded"
	markBegun  = "kubeadm-begun"
	markMember = "member"
)

func (l lab) marked(node, mark string) bool {
	_, err := os.Stat(filepath.Join(l.disk(node), mark))
	return err == nil
}

func (l lab) mark(node, mark string) error {
	if err := os.WriteFile(filepath.Join(l.disk(node), mark), nil, 0o644); err != nil {
		return fmt.Errorf("marking %s as %s: %w", node, mark, err)
	}
	return nil
}

// token returns the lab's bootstrap token, made on first use.
func (l lab) token() (string, error) {
	file := filepath.Join(l.state, "token")
	if text, err := os.ReadFile(file); err == nil && len(text) == len("abcdef.0123456789abcdef") {
		return string(text), nil
	}
	random := make([]byte, 11)
	if _, err := rand.Read(random); err != nil {
		return "", fmt.Errorf("making a bootstrap token: %w", err)
	}
	hexed := hex.EncodeToString(random)
	token := hexed[:6] + "." + hexed[6:22]
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		return "", fmt.Errorf("keeping the bootstrap token: %w", err)
	}
	return token, nil
}

// loadImages imports the images that a node needs.
func (l lab) loadImages(ctx context.Context, h host) error {
	if l.marked(h.name, markImages) {
		return nil
	}
	for _, image := range labImages() {
		if !image.on(h) {
			continue
		}
		if err := l.load(ctx, h.name, filepath.Join(l.images(), image.file)); err != nil {
			return err
		}
	}
	if err := l.settle(ctx, h); err != nil {
		return err
	}
	return l.mark(h.name, markImages)
}

// load imports an image file on one node.
func (l lab) load(ctx context.Context, node, file string) error {
	if _, err := l.in(ctx, node, "ctr", "--namespace", "k8s.io", "images", "import", "--local", file); err != nil {
		return fmt.Errorf("loading %s on %s: %w", filepath.Base(file), node, err)
	}
	return nil
}

// loadEverywhere imports image files on all nodes.
func (l lab) loadEverywhere(ctx context.Context, files []string) error {
	nodes := l.nodes()
	if len(nodes) == 0 {
		return l.isDown()
	}
	for _, h := range nodes {
		for _, file := range files {
			absolute, err := filepath.Abs(file)
			if err != nil {
				return fmt.Errorf("finding %s: %w", file, err)
			}
			if err := l.load(ctx, h.name, absolute); err != nil {
				return err
			}
		}
	}
	return nil
}

// startCluster makes the nodes one cluster, the workers at the same time. Nodes that are members already are left alone.
func (l lab) startCluster(ctx context.Context, p progress, nodes []host) error {
	token, err := l.token()
	if err != nil {
		return err
	}
	cp := nodes[0]
	if !l.marked(cp.name, markMember) {
		err := p.step("kubeadm init on "+cp.name, func() error {
			return l.kubeadm(ctx, cp, kubeadmInit(cp, token, l.wanted().stack), "init", "--skip-phases=addon/coredns")
		})
		if err != nil {
			return err
		}
	}
	if err := l.publishKubeconfig(cp); err != nil {
		return err
	}
	if err := p.step("waiting for the API server", func() error { return l.awaitAPI(ctx) }); err != nil {
		return err
	}
	var joins errgroup.Group
	for _, h := range nodes[1:] {
		if l.marked(h.name, markMember) {
			continue
		}
		joins.Go(func() error {
			return p.step("kubeadm join on "+h.name, func() error {
				return l.kubeadm(ctx, h, kubeadmJoin(h, cp, token, l.wanted().stack), "join")
			})
		})
	}
	return joins.Wait()
}

// kubeadm runs one of kubeadm's verbs on a node. A node on which an earlier attempt was cut off, and may still be running, is installed
// anew first.
func (l lab) kubeadm(ctx context.Context, h host, config, verb string, args ...string) error {
	if l.marked(h.name, markBegun) {
		if err := l.reinstall(ctx, h); err != nil {
			return fmt.Errorf("installing %s anew: %w", h.name, err)
		}
	}
	if err := l.mark(h.name, markBegun); err != nil {
		return err
	}
	etc := filepath.Join(l.disk(h.name), "kubeadm")
	if err := makeFolders(etc); err != nil {
		return err
	}
	file := filepath.Join(etc, verb+".yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return fmt.Errorf("writing kubeadm's configuration: %w", err)
	}
	patch := filepath.Join(etc, "kubeletconfiguration+merge.json")
	if err := os.WriteFile(patch, []byte(kubeletPatch(l.podsCgroup(h))), 0o644); err != nil {
		return fmt.Errorf("writing kubeadm's patch: %w", err)
	}
	if _, err := l.in(ctx, h.name, "sh", "-c", "mkdir -p /etc/kubernetes/patches && cp "+patch+" /etc/kubernetes/patches/"); err != nil {
		return err
	}
	command := append([]string{"kubeadm", verb, "--config", file, "--ignore-preflight-errors=all"}, args...)
	if out, err := l.in(ctx, h.name, command...); err != nil {
		log := filepath.Join(l.disk(h.name), "kubelet.log")
		return errors.Join(err, fmt.Errorf("kubeadm said:\n%s\nthe end of %s:\n%s", lastLines(out, 30), log, lastLinesOf(log, 10)))
	}
	if err := l.settle(ctx, h); err != nil {
		return err
	}
	return l.mark(h.name, markMember)
}

// settle writes to its disk what a node's own kernel has only in memory: a power cut would take what a mark says is there.
func (l lab) settle(ctx context.Context, h host) error {
	if h.kernel == sharedKernel {
		return nil
	}
	_, err := l.in(ctx, h.name, "sync")
	return err
}

// reinstall gives a node an empty disk, and takes a worker out of the cluster that it may have joined.
func (l lab) reinstall(ctx context.Context, h host) error {
	if err := l.powerOff(ctx, h); err != nil {
		return err
	}
	if err := os.RemoveAll(l.disk(h.name)); err != nil {
		return fmt.Errorf("emptying its disk: %w", err)
	}
	if h.role == worker {
		if _, err := l.kubectl(ctx, "delete", "node", h.name, "--ignore-not-found"); err != nil {
			return err
		}
	}
	if err := l.boot(ctx, h); err != nil {
		return err
	}
	return l.loadImages(ctx, h)
}

// publishKubeconfig puts the admin's kubeconfig where the workstation finds it.
func (l lab) publishKubeconfig(cp host) error {
	config, err := os.ReadFile(filepath.Join(l.disk(cp.name), "etc", "kubernetes", "admin.conf"))
	if err != nil {
		return fmt.Errorf("reading the admin's kubeconfig: %w", err)
	}
	if err := os.WriteFile(l.adminKubeconfig(), config, 0o600); err != nil {
		return fmt.Errorf("publishing the admin's kubeconfig: %w", err)
	}
	return nil
}

// kubectl runs kubectl on the workstation.
func (l lab) kubectl(ctx context.Context, args ...string) (string, error) {
	return l.in(ctx, workstationOps.name, append([]string{"kubectl"}, args...)...)
}

func (l lab) awaitAPI(ctx context.Context) error {
	return waitFor(ctx, "the API server", 2*time.Minute, func(ctx context.Context) (bool, error) {
		_, err := l.kubectl(ctx, "get", "--raw", "/readyz")
		return err == nil, err
	})
}
