package oci

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

var otherDay = time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)

// specimen is an image with an entry of each kind.
func specimen(t *testing.T) Spec {
	t.Helper()
	source := filepath.Join(t.TempDir(), "built")
	if err := os.WriteFile(source, []byte("program"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Spec{
		Reference: "registry.k8s.io/specimen:v1",
		Files: []File{
			{Path: "/usr/bin/program", Source: source, Mode: 0o755},
			{Path: "/usr/bin/alias", Link: "program"},
			{Path: "/etc/motd", Content: []byte("hello\n"), Mode: 0o644},
			{Path: "/tmp", Dir: true, Mode: 0o1777},
		},
		Entrypoint: []string{"/usr/bin/program"},
		Cmd:        []string{"--help"},
		User:       "65532:65532",
		Env:        []string{"MODE=test"},
		Labels:     map[string]string{"org.opencontainers.image.title": "specimen"},
	}
}

func written(t *testing.T, spec Spec) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := Write(spec, file); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTheSameFilesGiveTheSameBytes(t *testing.T) {
	spec := specimen(t)
	first, err := os.ReadFile(written(t, spec))
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(spec.Files)
	if err := os.Chtimes(spec.Files[len(spec.Files)-1].Source, otherDay, otherDay); err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(written(t, spec))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("the same files in another order, of another day, gave other bytes")
	}
}

// entry is what a layer says of a file.
type entry struct {
	Name, Link, Content string
	Mode, Time          int64
}

func TestImage(t *testing.T) {
	image, err := tarball.ImageFromPath(written(t, specimen(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	if len(layers) != 1 {
		t.Fatalf("the image has %d layers, want 1", len(layers))
	}
	want := []entry{
		{Name: "etc/", Mode: 0o755},
		{Name: "etc/motd", Content: "hello\n", Mode: 0o644},
		{Name: "tmp/", Mode: 0o1777},
		{Name: "usr/", Mode: 0o755},
		{Name: "usr/bin/", Mode: 0o755},
		{Name: "usr/bin/alias", Link: "program"},
		{Name: "usr/bin/program", Content: "program", Mode: 0o755},
	}
	if diff := cmp.Diff(want, entries(t, layers[0])); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	id, err := layers[0].DiffID()
	if err != nil {
		t.Fatal(err)
	}
	wantConfig := &v1.ConfigFile{
		Architecture: "amd64",
		OS:           "linux",
		RootFS:       v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{id}},
		Config: v1.Config{
			Entrypoint: []string{"/usr/bin/program"},
			Cmd:        []string{"--help"},
			User:       "65532:65532",
			Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "MODE=test"},
			Labels:     map[string]string{"org.opencontainers.image.title": "specimen"},
		},
	}
	if diff := cmp.Diff(wantConfig, config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func entries(t *testing.T, layer v1.Layer) []entry {
	t.Helper()
	content, err := layer.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close() //nolint:errcheck // only read
	var all []entry
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, entry{Name: header.Name, Link: header.Linkname, Content: string(text), Mode: header.Mode, Time: header.ModTime.Unix()})
	}
}

// TestTheImageIsKnownByItsFullName reads it as `docker load` and `ctr images import` do.
func TestTheImageIsKnownByItsFullName(t *testing.T) {
	file := written(t, specimen(t))
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(file) })
	if err != nil {
		t.Fatal(err)
	}
	var names [][]string
	for _, image := range manifest {
		names = append(names, image.RepoTags)
	}
	if diff := cmp.Diff([][]string{{"registry.k8s.io/specimen:v1"}}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestWriteRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		spec Spec
		err  string
	}{
		"a name that is none": {
			spec: Spec{Reference: "Upper:v1"},
			err:  "reading the image's name \"Upper:v1\": repository can only contain the characters `abcdefghijklmnopqrstuvwxyz0123456789_-./`: Upper",
		},
		"a file that is not there": {
			spec: Spec{Reference: "lanyard:dev", Files: []File{{Path: "/speaker", Source: "/nowhere/speaker", Mode: 0o755}}},
			err:  "packing the files of lanyard:dev: adding speaker: open /nowhere/speaker: no such file or directory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "image.tar")
			if err := Write(tc.spec, file); err == nil || err.Error() != tc.err {
				t.Errorf("error is %v, want %s", err, tc.err)
			}
			if left, err := filepath.Glob(file + "*"); err != nil || len(left) > 0 {
				t.Errorf("it left %v, error %v", left, err)
			}
		})
	}
}
