package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// hierarchies are the roots of the cgroup hierarchies: one for each controller with version 1, one for all with version 2.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}, nil
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, fmt.Errorf("listing cgroup hierarchies: %w", err)
	}
	var roots []string
	for _, e := range entries {
		if e.IsDir() {
			roots = append(roots, filepath.Join(cgroupRoot, e.Name()))
		}
	}
	return roots, nil
}

// makeCgroups makes a cgroup in every hierarchy. cpuset's files start out empty in version 1 and are copied down from the root, or no
// process could enter.
func makeCgroups(group string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if err := os.MkdirAll(filepath.Join(root, group), 0o755); err != nil {
			return fmt.Errorf("making cgroup %s: %w", group, err)
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := copyDown(root, group, file); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyDown copies a file of the root into each folder on the way to the group.
func copyDown(root, group, file string) error {
	value, err := os.ReadFile(filepath.Join(root, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	folder := root
	for _, part := range strings.Split(group, "/") {
		folder = filepath.Join(folder, part)
		if err := os.WriteFile(filepath.Join(folder, file), value, 0o644); err != nil {
			return fmt.Errorf("setting %s of %s: %w", file, folder, err)
		}
	}
	return nil
}

// cgroupsOf lists the cgroups at and below a group, the deepest first, so that they can be removed in this order.
func cgroupsOf(group string) ([]string, error) {
	roots, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var groups []string
	for _, root := range roots {
		err := filepath.WalkDir(filepath.Join(root, group), func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && entry.IsDir() {
				groups = append(groups, path)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("listing cgroups: %w", err)
		}
	}
	slices.Reverse(groups) // WalkDir goes from the top down
	return groups, nil
}

// thaw lets the processes of a group and of all below it run again: a frozen one does not die.
func thaw(group string) error {
	groups, err := cgroupsOf(group)
	if err != nil {
		return err
	}
	for _, g := range groups {
		for file, thawed := range map[string]string{"freezer.state": "THAWED", "cgroup.freeze": "0"} { // of version 1 and 2
			f, err := os.OpenFile(filepath.Join(g, file), os.O_WRONLY, 0)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				_, err = f.WriteString(thawed)
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				return fmt.Errorf("thawing %s: %w", g, err)
			}
		}
	}
	return nil
}

// removeCgroups removes a group and all below it. A cgroup can be removed once the kernel has buried its last process.
func removeCgroups(ctx context.Context, group string) error {
	return waitFor(ctx, "the cgroups of "+group+" to be empty", 30*time.Second, func(context.Context) (bool, error) {
		groups, err := cgroupsOf(group)
		if err != nil {
			return false, err
		}
		for _, g := range groups {
			if err := os.Remove(g); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false, fmt.Errorf("removing cgroup %s: %w", g, err)
			}
		}
		return true, nil
	})
}

// removeCommonCgroups removes the groups that all labs are below, unless another lab has groups there.
func removeCommonCgroups() error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		err := os.Remove(filepath.Join(root, commonCgroup))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.EBUSY) && !errors.Is(err, syscall.ENOTEMPTY) {
			return fmt.Errorf("removing the labs' common cgroup: %w", err)
		}
	}
	return nil
}
