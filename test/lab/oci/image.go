package oci

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// File is one entry of an image's file system.
type File struct {
	// Path is where the image has it, from the root.
	Path string
	// Source is the file on this machine that it is copied from. A symbolic link is followed. Empty when Content, Link or Dir say
	// what it is.
	Source string
	// Content is the file's content, when it has no source.
	Content []byte
	// Link is the target of a symbolic link.
	Link string
	// Mode are the permission bits.
	Mode int64
	// Dir makes the entry a folder.
	Dir bool
}

// Spec is an image: files and how they run.
type Spec struct {
	// Reference is the image's full name with its tag.
	Reference  string
	Files      []File
	Entrypoint []string
	Cmd        []string
	// User is what the processes run as, "UID:GID". Empty means root.
	User string
	Env  []string
	// Labels are the OCI annotations of the image's configuration.
	Labels map[string]string
}

// Write makes the image and writes it to a tar file that `ctr images import` and `docker load` read. The same files give the same
// bytes: entries are sorted, and no time but the Unix epoch is in it.
func Write(spec Spec, to string) error {
	ref, err := name.NewTag(spec.Reference)
	if err != nil {
		return fmt.Errorf("reading the image's name %q: %w", spec.Reference, err)
	}
	layer, err := layerOf(spec.Files)
	if err != nil {
		return fmt.Errorf("packing the files of %s: %w", spec.Reference, err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return fmt.Errorf("adding the layer of %s: %w", spec.Reference, err)
	}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: "amd64",
		OS:           "linux",
		RootFS:       rootFS(layer),
		Config: v1.Config{
			Entrypoint: spec.Entrypoint,
			Cmd:        spec.Cmd,
			User:       spec.User,
			Env:        append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, spec.Env...),
			Labels:     spec.Labels,
		},
	})
	if err != nil {
		return fmt.Errorf("configuring %s: %w", spec.Reference, err)
	}
	partial := to + ".partial"
	if err := tarball.WriteToFile(partial, ref, image); err != nil {
		return fmt.Errorf("writing %s: %w", spec.Reference, err)
	}
	if err := os.Rename(partial, to); err != nil {
		return fmt.Errorf("finishing %s: %w", to, err)
	}
	return nil
}

func rootFS(layer v1.Layer) v1.RootFS {
	id, err := layer.DiffID()
	if err != nil { // the layer was made from bytes in memory: its digest cannot fail
		panic(err)
	}
	return v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{id}}
}

// layerOf packs the files into one layer.
func layerOf(files []File) (v1.Layer, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, f := range withFolders(files) {
		if err := add(w, f); err != nil {
			return nil, fmt.Errorf("adding %s: %w", f.Path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("closing the archive: %w", err)
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil })
}

// withFolders adds the folders that the files lie in, and sorts all by path, so that a folder comes before what is in it.
func withFolders(files []File) []File {
	byPath := map[string]File{}
	for _, f := range files {
		f.Path = strings.TrimPrefix(path.Clean(f.Path), "/")
		byPath[f.Path] = f
		for dir := path.Dir(f.Path); dir != "." && dir != "/"; dir = path.Dir(dir) {
			if _, known := byPath[dir]; !known {
				byPath[dir] = File{Path: dir, Dir: true, Mode: 0o755}
			}
		}
	}
	all := make([]File, 0, len(byPath))
	for _, f := range byPath {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return all
}

func add(w *tar.Writer, f File) error {
	header := &tar.Header{Name: f.Path, Mode: f.Mode, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	content := f.Content
	switch {
	case f.Dir:
		header.Typeflag, header.Name = tar.TypeDir, f.Path+"/"
	case f.Link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, f.Link
	default:
		header.Typeflag = tar.TypeReg
		if f.Source != "" {
			read, err := os.ReadFile(f.Source)
			if err != nil {
				return err
			}
			content = read
		}
		header.Size = int64(len(content))
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	if header.Typeflag != tar.TypeReg {
		return nil
	}
	_, err := w.Write(content)
	return err
}
