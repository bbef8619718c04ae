package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// archiveKeyring holds the keys that Debian signs its suites with.
const archiveKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// oldestKernel is the first whose user-mode Linux runs programs without ptrace.
var oldestKernel = version{major: 6, minor: 16}

// version is a kernel's, without what Debian and its stable releases add.
type version struct{ major, minor int }

// compare orders versions: negative when v is the older one.
func (v version) compare(other version) int {
	return cmp.Or(cmp.Compare(v.major, other.major), cmp.Compare(v.minor, other.minor))
}

const kernelPackage = "linux-source-%d.%d"

// unpackKernel puts the newest sources that the suite has into a folder. It works on lists of its own: this machine's packages and their
// sources stay as they are.
func unpackKernel(ctx context.Context, folder string) error {
	repositories, err := run(ctx, "apt-get", "indextargets", "--format", "$(ORIGIN) $(SUITE) $(REPO_URI)", "Identifier: Packages")
	if err != nil {
		return err
	}
	mirror, err := mirrorOf(repositories)
	if err != nil {
		return err
	}
	apt := filepath.Join(folder, "apt")
	if err := makeFolders(filepath.Join(apt, "lists", "partial"), filepath.Join(apt, "cache", "archives", "partial")); err != nil {
		return err
	}
	list := filepath.Join(apt, "sources.list")
	line := fmt.Sprintf("deb [signed-by=%s] %s %s main\n", archiveKeyring, mirror, kernelSuite)
	if err := os.WriteFile(list, []byte(line), 0o644); err != nil {
		return fmt.Errorf("writing the list of the suite %s: %w", kernelSuite, err)
	}
	own := []string{"-o", "Dir::Etc::SourceList=" + list, "-o", "Dir::Etc::SourceParts=/dev/null", "-o", "APT::Sandbox::User=root",
		"-o", "Dir::State::Lists=" + filepath.Join(apt, "lists"), "-o", "Dir::Cache=" + filepath.Join(apt, "cache")}
	if _, err := run(ctx, "apt-get", append(own, "update")...); err != nil {
		return err
	}
	offered, err := run(ctx, "apt-cache", append(own, "search", "--names-only", "^linux-source-[0-9.]+$")...)
	if err != nil {
		return err
	}
	newest, err := newestKernel(offered)
	if err != nil {
		return err
	}
	download := exec.CommandContext(ctx, "apt-get", append(own, "download", newest)...)
	download.Dir = apt
	if _, err := runCommand(download); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(apt, "*.deb"))
	if err != nil || len(archives) != 1 {
		return fmt.Errorf("looking for the archive of %s: found %d, error %w", newest, len(archives), err)
	}
	if _, err := run(ctx, "dpkg-deb", "--extract", archives[0], apt); err != nil {
		return err
	}
	_, err = run(ctx, "tar", "--extract", "--xz", "--strip-components=1", "--directory="+folder,
		"--file="+filepath.Join(apt, "usr", "src", newest+".tar.xz"))
	return err
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
	var newest version
	for line := range strings.Lines(offered) {
		var v version
		if n, _ := fmt.Sscanf(line, kernelPackage, &v.major, &v.minor); n == 2 && v.compare(newest) > 0 {
			newest = v
		}
	}
	if newest.compare(oldestKernel) < 0 {
		return "", fmt.Errorf("the suite %s of Debian offers %q: a node's kernel needs sources of Linux %d.%d or newer",
			kernelSuite, offered, oldestKernel.major, oldestKernel.minor)
	}
	return fmt.Sprintf(kernelPackage, newest.major, newest.minor), nil
}
