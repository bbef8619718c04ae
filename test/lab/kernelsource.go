package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// archiveKeyring holds the keys that Debian signs its suites with.
const archiveKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// oldestKernel is the first whose user-mode Linux runs programs without ptrace.
var oldestKernel = version.MustParseGeneric("6.16")

// kernelPackage begins the names of the packages with the kernel's sources; the version follows.
const kernelPackage = "linux-source-"

// unpackKernel puts the newest sources that the suite has into a folder.
func unpackKernel(ctx context.Context, folder string) error {
	apt := filepath.Join(folder, "apt")
	options, err := readKernelSuite(ctx, apt)
	if err != nil {
		return err
	}
	offered, err := run(ctx, "apt-cache", append(options, "search", "--names-only", "^"+kernelPackage+"[0-9.]+$")...)
	if err != nil {
		return err
	}
	newest, err := newestKernel(offered)
	if err != nil {
		return err
	}
	if err := unpackPackages(ctx, apt, options, newest); err != nil {
		return err
	}
	_, err = run(ctx, "tar", "--extract", "--xz", "--strip-components=1", "--directory="+folder,
		"--file="+filepath.Join(apt, "usr", "src", newest+".tar.xz"))
	return err
}

// readKernelSuite reads the suite's lists into a folder, and returns the options with which apt knows that suite and no other. This machine's
// packages and their sources stay as they are.
func readKernelSuite(ctx context.Context, folder string) (options []string, err error) {
	repositories, err := run(ctx, "apt-get", "indextargets", "--format", "$(ORIGIN) $(SUITE) $(REPO_URI)", "Identifier: Packages")
	if err != nil {
		return nil, err
	}
	mirror, err := mirrorOf(repositories)
	if err != nil {
		return nil, err
	}
	lists, cache := filepath.Join(folder, "lists"), filepath.Join(folder, "cache")
	if err := makeFolders(filepath.Join(lists, "partial"), filepath.Join(cache, "archives", "partial")); err != nil {
		return nil, err
	}
	source := filepath.Join(folder, "sources.list")
	line := fmt.Sprintf("deb [signed-by=%s] %s %s main\n", archiveKeyring, mirror, kernelSuite)
	if err := os.WriteFile(source, []byte(line), 0o644); err != nil {
		return nil, fmt.Errorf("writing the list of the suite %s: %w", kernelSuite, err)
	}
	options = []string{"-o", "Dir::Etc::SourceList=" + source, "-o", "Dir::Etc::SourceParts=/dev/null", "-o", "APT::Sandbox::User=root",
		"-o", "Dir::State::Lists=" + lists, "-o", "Dir::Cache=" + cache}
	_, err = run(ctx, "apt-get", append(options, "update")...)
	return options, err
}

// mirrorOf chooses where this machine gets Debian from, of lines of origin, suite and address. The archive of security updates has no
// backports.
func mirrorOf(repositories string) (string, error) {
	for line := range strings.Lines(repositories) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "Debian" && !strings.HasSuffix(fields[1], "-security") {
			return fields[2], nil
		}
	}
	return "", errors.New("this machine's sources of packages have no archive of Debian: a node's kernel is built from its sources; add one, and run apt-get update")
}

// newestKernel chooses a package of sources, of lines that begin with a name.
func newestKernel(offered string) (string, error) {
	var newest *version.Version
	for line := range strings.Lines(offered) {
		name, _, _ := strings.Cut(line, " ")
		number, isSource := strings.CutPrefix(name, kernelPackage)
		if v, err := version.ParseGeneric(number); isSource && err == nil && (newest == nil || newest.LessThan(v)) {
			newest = v
		}
	}
	if newest == nil || newest.LessThan(oldestKernel) {
		return "", fmt.Errorf("the suite %s of Debian offers %q: a node's kernel needs sources of Linux %s or newer", kernelSuite, offered, oldestKernel)
	}
	return kernelPackage + newest.String(), nil
}
