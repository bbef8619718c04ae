package oci

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// WithLibraries returns the programs and every shared library that they need, found in the given folders, as files of an image. A
// program that is linked statically needs none.
func WithLibraries(programs []File, folders []string) ([]File, error) {
	files := append([]File(nil), programs...)
	seen := map[string]bool{}
	for queue := programs; len(queue) > 0; queue = queue[1:] {
		needed, err := neededBy(queue[0].Source)
		if err != nil {
			return nil, fmt.Errorf("reading what %s needs: %w", queue[0].Source, err)
		}
		for _, library := range needed {
			if seen[library] {
				continue
			}
			seen[library] = true
			source, err := find(library, folders)
			if err != nil {
				return nil, fmt.Errorf("finding what %s needs: %w", queue[0].Source, err)
			}
			f := File{Path: libraryPath(library), Source: source, Mode: 0o755}
			files = append(files, f)
			queue = append(queue, f)
		}
	}
	return files, nil
}

// libraryPath is where an image has a library: the dynamic loader is asked for by its absolute path.
func libraryPath(library string) string {
	if library == "ld-linux-x86-64.so.2" {
		return "/lib64/" + library
	}
	return "/usr/lib/x86_64-linux-gnu/" + library
}

// neededBy returns the names of the libraries that an ELF file asks for, its dynamic loader included. Another kind of file needs none.
func neededBy(file string) ([]string, error) {
	f, err := elf.Open(file)
	var format *elf.FormatError
	if errors.As(err, &format) || errors.Is(err, io.EOF) { // not an ELF file, or shorter than one can be
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	needed, err := f.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	if f.Section(".interp") != nil {
		needed = append(needed, "ld-linux-x86-64.so.2")
	}
	return needed, nil
}

func find(library string, folders []string) (string, error) {
	for _, folder := range folders {
		candidate := filepath.Join(folder, library)
		if _, err := os.Stat(candidate); err == nil {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("%s is in none of %v", library, folders)
}
