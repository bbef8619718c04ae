package dataplane

import (
	"cmp"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

//go:embed all:chart
var chartFiles embed.FS

// HealthPort is the TCP port on the node on which a speaker answers kubelet's probes and serves its metrics.
const HealthPort = 7957

// Owner is the manager's Deployment.
type Owner struct {
	Name, UID string
}

// Values are all that the objects depend on.
type Values struct {
	Namespace string
	// PodSecurity is the level to which pods in the namespace are held. Empty: the cluster's default.
	PodSecurity string
	// KubeVersion is the cluster's version, which the chart is checked against.
	KubeVersion string
	// Owner is unset when the manager runs outside the cluster.
	Owner Owner
	Image string
	// PullPolicy and PullSecrets are those of the manager's own pod.
	PullPolicy  corev1.PullPolicy
	PullSecrets []corev1.LocalObjectReference
	// MembershipKeys are the entries of the Secret with the keys of the speakers' gossip, and MembershipRotatedFor is for what one was made last.
	MembershipKeys       map[string][]byte
	MembershipRotatedFor string
	Speaker              v1alpha1.SpeakerSpec
}

// defaultPort is the membership port when the spec, made before the field had a default, names none.
const defaultPort = 7956

// MembershipPort is the TCP and UDP port by which the speakers hear each other.
func MembershipPort(s v1alpha1.SpeakerSpec) int { return cmp.Or(int(s.MembershipPort), defaultPort) }

// Render returns the speakers' objects, sorted by kind and name. The same values give the same objects.
func Render(v Values) ([]*unstructured.Unstructured, error) {
	loaded, err := load()
	if err != nil {
		return nil, err
	}
	// Helm assumes Kubernetes 1.20 unless told otherwise.
	version, err := chartutil.ParseKubeVersion(v.KubeVersion)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's version %q: %w", v.KubeVersion, err)
	}
	if loaded.Metadata.KubeVersion != "" && !chartutil.IsCompatibleRange(loaded.Metadata.KubeVersion, version.String()) {
		return nil, fmt.Errorf("the cluster runs Kubernetes %s and the speakers need %s: upgrade the cluster", version, loaded.Metadata.KubeVersion)
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	plain, err := asPlain(v.chartValues())
	if err != nil {
		return nil, err
	}
	release := chartutil.ReleaseOptions{Name: "lanyard", Namespace: v.Namespace, Revision: 1, IsInstall: true}
	values, err := chartutil.ToRenderValues(loaded, plain, release, capabilities)
	if err != nil {
		return nil, fmt.Errorf("preparing the chart's values: %w", err)
	}
	rendered, err := engine.Engine{Strict: true}.Render(loaded, values)
	if err != nil {
		return nil, fmt.Errorf("rendering the chart: %w", err)
	}
	return decode(rendered)
}

// load reads the embedded chart.
func load() (*chart.Chart, error) {
	var files []*loader.BufferedFile
	err := fs.WalkDir(chartFiles, "chart", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := chartFiles.ReadFile(path)
		files = append(files, &loader.BufferedFile{Name: strings.TrimPrefix(path, "chart/"), Data: data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the embedded chart: %w", err)
	}
	loaded, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("loading the embedded chart: %w", err)
	}
	return loaded, nil
}

// chartValues are the values by the names that the chart has for them.
func (v Values) chartValues() map[string]any {
	speaker := v.Speaker
	tolerations := speaker.Tolerations
	if tolerations == nil {
		tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	resources := speaker.Resources
	if resources == nil {
		resources = defaultResources()
	}
	secrets := slices.Concat(v.PullSecrets, speaker.ImagePullSecrets)
	owner := map[string]any{}
	if v.Owner.UID != "" {
		owner = map[string]any{"name": v.Owner.Name, "uid": v.Owner.UID}
	}
	entries := map[string]string{} // not bytes: none at all would become null
	for name, value := range v.MembershipKeys {
		entries[name] = base64.StdEncoding.EncodeToString(value)
	}
	return map[string]any{
		"owner": owner,
		"membership": map[string]any{
			"secret":               v1alpha1.MembershipSecret,
			"entries":              entries,
			"rotatedFor":           v.MembershipRotatedFor,
			"rotatedForAnnotation": v1alpha1.RotatedForAnnotation,
			"port":                 strconv.Itoa(MembershipPort(speaker)),
		},
		"speaker": map[string]any{
			"podSecurity":      v.PodSecurity,
			"name":             v1alpha1.SpeakerDaemonSet,
			"service":          v1alpha1.SpeakerService,
			"image":            v.Image,
			"imagePullPolicy":  cmp.Or(string(v.PullPolicy), string(corev1.PullIfNotPresent)),
			"imagePullSecrets": secrets,
			"nodeSelector":     speaker.NodeSelector,
			"tolerations":      tolerations,
			"resources":        resources,
			"healthPort":       strconv.Itoa(HealthPort),
			"logLevel":         cmp.Or(string(speaker.LogLevel), string(v1alpha1.LogLevelInfo)),
		},
	}
}

// asPlain returns values as maps, lists and scalars: Helm copies values field by field, which empties types like resource.Quantity.
func asPlain(values map[string]any) (map[string]any, error) {
	encoded, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("encoding the chart's values: %w", err)
	}
	var plain map[string]any
	if err := json.Unmarshal(encoded, &plain); err != nil {
		return nil, fmt.Errorf("decoding the chart's values: %w", err)
	}
	return plain, nil
}

// defaultResources leave the CPU without a limit: throttling a speaker slows failover down.
func defaultResources() *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("20m"),
			corev1.ResourceMemory: resource.MustParse("32Mi"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
	}
}

// decode reads the rendered files as objects.
func decode(rendered map[string]string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, file := range slices.Sorted(maps.Keys(rendered)) {
		decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(rendered[file]), 4096)
		for {
			var content map[string]any
			err := decoder.Decode(&content)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("reading what %s rendered: %w", file, err)
			}
			if len(content) > 0 {
				objects = append(objects, &unstructured.Unstructured{Object: content})
			}
		}
	}
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetKind(), b.GetKind()), strings.Compare(a.GetName(), b.GetName()))
	})
	return objects, nil
}
