package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// debianPackages are what a lab needs from Debian, each with a file that tells whether it is there.
var debianPackages = map[string]string{
	"conntrack":       "/usr/sbin/conntrack",
	"curl":            "/usr/bin/curl",
	"iproute2":        "/usr/sbin/ip",
	"ipset":           "/usr/sbin/ipset",
	"iptables":        "/usr/sbin/iptables",
	"iputils-arping":  "/usr/bin/arping",
	"kmod":            "/usr/bin/kmod",
	"libpcre2-8-0":    "/usr/lib/x86_64-linux-gnu/libpcre2-8.so.0",
	"nftables":        "/usr/sbin/nft",
	"procps":          "/usr/bin/ps",
	"runc":            "/usr/sbin/runc",
	"tcpdump":         "/usr/bin/tcpdump",
	"util-linux":      "/usr/bin/nsenter",
	"ca-certificates": "/etc/ssl/certs/ca-certificates.crt",
}

// kernelPackages are what nodes with a kernel of their own need besides.
var kernelPackages = map[string]string{
	"e2fsprogs": "/usr/sbin/mkfs.ext4",
}

// installPackages installs what is missing from Debian, and says so.
func installPackages(ctx context.Context, p progress, packages map[string]string) error {
	var missing []string
	for name, file := range packages {
		if _, err := os.Stat(file); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return p.step("installing Debian packages "+strings.Join(missing, " "), func() error {
		if _, err := run(ctx, "apt-get", "update"); err != nil {
			return err
		}
		install := exec.CommandContext(ctx, "apt-get", append([]string{"install", "--yes", "--no-install-recommends"}, missing...)...)
		install.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		_, err := runCommand(install)
		return err
	})
}

// unpackNginx unpacks Debian's nginx into a folder, without installing it: the machine gets no web server.
func unpackNginx(ctx context.Context, folder string) error {
	packages := []string{"nginx", "nginx-common"}
	if err := unpackPackages(ctx, folder, nil, packages...); err == nil {
		return nil
	}
	// The package lists may be older than the archive.
	if _, err := run(ctx, "apt-get", "update"); err != nil {
		return err
	}
	return unpackPackages(ctx, folder, nil, packages...)
}

// unpackPackages downloads packages from Debian into a folder, with options for apt, and unpacks them there. Nothing is installed.
func unpackPackages(ctx context.Context, folder string, options []string, packages ...string) error {
	if err := makeFolders(folder); err != nil {
		return err
	}
	download := exec.CommandContext(ctx, "apt-get", slices.Concat(options, []string{"download"}, packages)...)
	download.Dir = folder
	if _, err := runCommand(download); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(folder, "*.deb"))
	if err != nil {
		return fmt.Errorf("looking for the archives of %s: %w", strings.Join(packages, " "), err)
	}
	for _, archive := range archives {
		if _, err := run(ctx, "dpkg-deb", "--extract", archive, folder); err != nil {
			return err
		}
	}
	return nil
}
