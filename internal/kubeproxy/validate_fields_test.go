package kubeproxy

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1alpha1 "k8s.io/kube-proxy/config/v1alpha1"
)

// TestKnownFieldsAreKubeProxys compares the fields with the type that kube-proxy itself decodes into.
func TestKnownFieldsAreKubeProxys(t *testing.T) {
	theirs := map[string]bool{}
	fieldsOfType(reflect.TypeFor[configv1alpha1.KubeProxyConfiguration](), "", theirs)
	ours := map[string]bool{}
	for path := range knownFields {
		ours[path] = true
	}
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Errorf("fields (-kube-proxy's +ours):\n%s", diff)
	}
}

// fieldsOfType collects the paths of a struct's fields, by their names in JSON.
func fieldsOfType(of reflect.Type, prefix string, paths map[string]bool) {
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			fieldsOfType(f.Type, prefix, paths)
			continue
		}
		paths[prefix+name] = true
		_, decodesItself := reflect.New(f.Type).Interface().(json.Unmarshaler)
		if f.Type.Kind() == reflect.Struct && !decodesItself && f.Type != reflect.TypeFor[metav1.Duration]() {
			fieldsOfType(f.Type, prefix+name+".", paths)
		}
	}
}

// TestMistyped asks kube-proxy's own types whether they take a value, for each field and values of every type.
func TestMistyped(t *testing.T) {
	values := []string{`null`, `true`, `"true"`, `5`, `-5`, `5.5`, `5000000000`, `""`, `"5s"`, `"-5s"`, `"5"`, `[]`, `["a"]`, `[null]`,
		`[5]`, `["a", 5]`, `{}`,
		`{"Feature": true}`, `{"Feature": "true"}`, `{"Feature": null}`}
	for _, path := range slices.Sorted(maps.Keys(knownFields)) {
		t.Run(path, func(t *testing.T) {
			kind := knownFields[path]
			if kind == kindOther {
				return
			}
			for _, value := range values {
				keys := strings.Split(path, ".")
				document := strings.Repeat("{%q: ", len(keys)) + value + strings.Repeat("}", len(keys))
				names := make([]any, 0, len(keys))
				for _, key := range keys {
					names = append(names, key)
				}
				document = fmt.Sprintf(document, names...)
				err := json.Unmarshal([]byte(document), &configv1alpha1.KubeProxyConfiguration{})
				var decoded any
				if err := json.Unmarshal([]byte(value), &decoded); err != nil {
					t.Fatal(err)
				}
				if should := kind.mistyped(decoded); (should == "") != (err == nil) {
					t.Errorf("%s: we say it should be %q, kube-proxy says %v", document, should, err)
				}
			}
		})
	}
}
