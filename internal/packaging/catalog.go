package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	semver "k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"
)

// The catalogs of one release. They offer the same; OLM takes the bundle from the catalog itself, or from the bundle's image.
const (
	inline  = "inline"   // OLM unpacks nothing, and needs no other image than the catalog's
	byImage = "by-image" // smaller: OLM starts a Job that unpacks the bundle's image
)

// packaged is a bundle, read from its folder.
type packaged struct {
	csv     string
	version *semver.Version
	name    string
	channel string
	// manifests are the objects as JSON, in the order of their files.
	manifests []json.RawMessage
}

func readBundle(folder string) (packaged, error) {
	var b packaged
	text, err := os.ReadFile(filepath.Join(folder, csvFile))
	if err != nil {
		return b, fmt.Errorf("reading a bundle: %w", err)
	}
	b.csv = string(text)
	v, err := readVersion(b.csv)
	if err != nil {
		return b, err
	}
	b.name = v.Metadata.Name
	if b.version, err = semver.ParseSemantic(v.Spec.Version); err != nil {
		return b, fmt.Errorf("reading the version of %s: %w", b.name, err)
	}
	if text, err = os.ReadFile(filepath.Join(folder, "metadata/annotations.yaml")); err != nil {
		return b, fmt.Errorf("reading a bundle: %w", err)
	}
	var metadata struct{ Annotations map[string]string }
	if err := yaml.Unmarshal(text, &metadata); err != nil {
		return b, fmt.Errorf("reading the metadata of %s: %w", b.name, err)
	}
	b.channel = metadata.Annotations["operators.operatorframework.io.bundle.channels.v1"]
	files, err := filepath.Glob(filepath.Join(folder, "manifests/*.yaml"))
	if err != nil {
		return b, err
	}
	for _, file := range files {
		if text, err = os.ReadFile(file); err != nil {
			return b, fmt.Errorf("reading a bundle: %w", err)
		}
		manifest, err := yaml.YAMLToJSON(text)
		if err != nil {
			return b, fmt.Errorf("reading %s: %w", file, err)
		}
		b.manifests = append(b.manifests, manifest)
	}
	return b, nil
}

// catalog returns a catalog of bundles, the oldest first: each replaces the one before, and who is further behind skips those between.
func catalog(kind, images string, bundles []packaged) (string, error) {
	if len(bundles) == 0 {
		return "", errors.New("a catalog of no bundle offers nothing: name their folders, the oldest first")
	}
	if err := checkOrder(bundles); err != nil {
		return "", err
	}
	newest := bundles[len(bundles)-1]
	head, err := packageOf(newest)
	if err != nil {
		return "", err
	}
	metas := []map[string]any{head, {"schema": "olm.channel", "package": packageName, "name": newest.channel, "entries": entries(bundles)}}
	for _, b := range bundles {
		meta, err := bundleOf(b, kind, images)
		if err != nil {
			return "", fmt.Errorf("describing %s: %w", b.name, err)
		}
		metas = append(metas, meta)
	}
	var text strings.Builder
	for _, meta := range metas {
		document, err := encode(meta)
		if err != nil {
			return "", err
		}
		text.WriteString("---\n" + document)
	}
	return text.String(), nil
}

// checkOrder says which of the bundles could not be upgraded to from the one before.
func checkOrder(bundles []packaged) error {
	var all []error
	for i, next := range bundles[1:] {
		before := bundles[i]
		if !before.version.LessThan(next.version) {
			all = append(all, fmt.Errorf("%s comes after %s: name the oldest first", next.name, before.name))
		}
		if err := checkSuccession(before.csv, next.csv); err != nil {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

func entries(bundles []packaged) []map[string]string {
	var all []map[string]string
	for i, b := range bundles {
		entry := map[string]string{"name": b.name}
		if i > 0 {
			entry["replaces"] = bundles[i-1].name
			entry["skipRange"] = fmt.Sprintf(">=%s <%s", bundles[0].version, b.version)
		}
		all = append(all, entry)
	}
	return all
}

// packageOf describes the package as its newest bundle does.
func packageOf(b packaged) (map[string]any, error) {
	var csv struct {
		Spec struct {
			Description string
			Icon        []struct{ Base64data, Mediatype string }
		}
	}
	if err := yaml.Unmarshal([]byte(b.csv), &csv); err != nil {
		return nil, fmt.Errorf("reading %s: %w", b.name, err)
	}
	if len(csv.Spec.Icon) != 1 {
		return nil, fmt.Errorf("%s has %d icons, not one", b.name, len(csv.Spec.Icon))
	}
	icon := csv.Spec.Icon[0]
	return map[string]any{
		"schema": "olm.package", "name": packageName, "defaultChannel": b.channel, "description": csv.Spec.Description,
		"icon": map[string]string{"base64data": icon.Base64data, "mediatype": icon.Mediatype},
	}, nil
}

// property is what a catalog says of a bundle for OLM to decide by.
type property struct {
	Type  string `json:"type"`
	Value any    `json:"value"`
}

func bundleOf(b packaged, kind, images string) (map[string]any, error) {
	v, err := readVersion(b.csv)
	if err != nil {
		return nil, err
	}
	meta := map[string]any{"schema": "olm.bundle", "package": packageName, "name": b.name}
	properties := []property{{"olm.package", map[string]string{"packageName": packageName, "version": v.Spec.Version}}}
	for _, o := range v.Spec.CustomResourceDefinitions.Owned {
		_, group, _ := strings.Cut(o.Name, ".")
		properties = append(properties, property{"olm.gvk", map[string]string{"group": group, "kind": o.Kind, "version": o.Version}})
	}
	related, err := relatedImages(b.csv)
	if err != nil {
		return nil, err
	}
	switch kind {
	case inline:
		for _, manifest := range b.manifests {
			properties = append(properties, property{"olm.bundle.object", map[string]string{"data": base64.StdEncoding.EncodeToString(manifest)}})
		}
	case byImage:
		about, err := aboutCSV(b.csv)
		if err != nil {
			return nil, err
		}
		properties = append(properties, property{"olm.csv.metadata", about})
		image := images + ":v" + v.Spec.Version
		meta["image"] = image
		related = append(related, map[string]string{"name": "", "image": image})
	}
	meta["properties"], meta["relatedImages"] = properties, related
	return meta, nil
}

func relatedImages(csv string) ([]map[string]string, error) {
	var read struct {
		Spec struct{ RelatedImages []map[string]string }
	}
	if err := yaml.Unmarshal([]byte(csv), &read); err != nil {
		return nil, fmt.Errorf("reading its images: %w", err)
	}
	return read.Spec.RelatedImages, nil
}

// aboutCSV is what a console shows of a CSV that the catalog does not hold itself.
func aboutCSV(csv string) (map[string]any, error) {
	var read struct {
		Metadata struct{ Annotations, Labels map[string]string }
		Spec     map[string]any
	}
	if err := yaml.Unmarshal([]byte(csv), &read); err != nil {
		return nil, fmt.Errorf("reading what it says of itself: %w", err)
	}
	about := map[string]any{"annotations": read.Metadata.Annotations, "labels": read.Metadata.Labels, "apiServiceDefinitions": map[string]any{}}
	for from, to := range map[string]string{"description": "description", "displayName": "displayName", "installModes": "installModes", "keywords": "keywords",
		"links": "links", "maintainers": "maintainers", "maturity": "maturity", "minKubeVersion": "minKubeVersion", "provider": "provider",
		"customresourcedefinitions": "crdDescriptions"} {
		about[to] = read.Spec[from]
	}
	if kinds, ok := about["crdDescriptions"].(map[string]any); ok {
		if owned, ok := kinds["owned"].([]any); ok {
			for _, kind := range owned { // which fields there are is in the bundle itself
				delete(kind.(map[string]any), "specDescriptors")
				delete(kind.(map[string]any), "statusDescriptors")
			}
		}
	}
	return about, nil
}

// catalogDockerfile makes an image of a catalog that OLM asks by gRPC.
const catalogDockerfile = `# The catalog as an image: docker build -f dist/catalog/%[1]s.Dockerfile dist/catalog
FROM quay.io/operator-framework/opm:v1.64.0

ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]

COPY %[1]s /configs
RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]

LABEL operators.operatorframework.io.index.configs.v1=/configs
`

// writeCatalogs makes both catalogs anew.
func writeCatalogs(output, images string, folders []string) error {
	var bundles []packaged
	for _, folder := range folders {
		b, err := readBundle(folder)
		if err != nil {
			return err
		}
		bundles = append(bundles, b)
	}
	files := map[string]string{}
	for _, kind := range []string{inline, byImage} {
		text, err := catalog(kind, images, bundles)
		if err != nil {
			return err
		}
		files[kind+"/"+packageName+"/catalog.yaml"] = text
		files[kind+".Dockerfile"] = fmt.Sprintf(catalogDockerfile, kind)
	}
	return writeFiles(output, files)
}
