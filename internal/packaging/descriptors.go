package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// descriptor tells a console of OLM how to show and edit one field.
type descriptor struct {
	Path         string   `json:"path"`
	DisplayName  string   `json:"displayName"`
	Description  string   `json:"description,omitempty"`
	XDescriptors []string `json:"x-descriptors,omitempty"`
}

const widget = "urn:alm:descriptor:com.tectonic.ui:"

// describeFields returns a descriptor for each field below one of the object's parts, spec or status.
func describeFields(schema *apiextensionsv1.JSONSchemaProps, part string) []descriptor {
	top, ok := schema.Properties[part]
	if !ok {
		return nil
	}
	var all []descriptor
	describeProperties(&all, "", top, part)
	return all
}

func describeProperties(all *[]descriptor, path string, schema apiextensionsv1.JSONSchemaProps, part string) {
	var names []string
	for name := range schema.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		field := schema.Properties[name]
		below := name
		if path != "" {
			below = path + "." + name
		}
		*all = append(*all, descriptor{Path: below, DisplayName: displayName(name), Description: strings.Join(strings.Fields(field.Description), " "),
			XDescriptors: widgets(name, field, part)})
		if field.Items != nil && field.Items.Schema != nil {
			describeProperties(all, below+"[0]", *field.Items.Schema, part)
		}
		describeProperties(all, below, field, part)
	}
}

// widgets are what a field is edited or shown with.
func widgets(name string, field apiextensionsv1.JSONSchemaProps, part string) []string {
	_, isSelector := field.Properties["matchLabels"]
	switch {
	case part == "status" && name == "conditions":
		return []string{"urn:alm:descriptor:io.kubernetes.conditions"}
	case part == "status":
		return []string{"urn:alm:descriptor:text"}
	case name == "nodeSelector" && isSelector:
		return []string{widget + "selector:core:v1:Node"}
	case name == "namespaceSelector" && isSelector:
		return []string{widget + "selector:core:v1:Namespace"}
	case name == "selector" && isSelector:
		return []string{widget + "selector:core:v1:Service"}
	case name == "resources":
		return []string{widget + "resourceRequirements"}
	case name == "imagePullSecrets":
		return []string{"urn:alm:descriptor:io.kubernetes:Secret"}
	case len(field.Enum) > 0:
		var choices []string
		for _, value := range field.Enum {
			choices = append(choices, widget+"select:"+strings.Trim(string(value.Raw), `"`))
		}
		return choices
	case field.Type == "boolean":
		return []string{widget + "booleanSwitch"}
	case field.Type == "integer":
		return []string{widget + "number"}
	case field.Type == "string":
		return []string{widget + "text"}
	default:
		return nil // objects and lists are shown by their fields
	}
}

// acronyms are written in capitals.
var acronyms = map[string]string{"ip": "IP", "mac": "MAC", "ipvs": "IPVS", "tcp": "TCP", "udp": "UDP"}

// displayName makes a title of a field's name: "ipPools" is "IP Pools", "strictARP" is "Strict ARP".
func displayName(field string) string {
	var words []string
	var word []rune
	runes := []rune(field)
	for i, r := range runes {
		// A capital begins a word after a small letter, and before one when it ends a run of capitals; "CIDRs" and "IPs" are one word.
		begins := unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || unicode.IsDigit(runes[i-1]) ||
			i+1 < len(runes) && unicode.IsLower(runes[i+1]) && !plural(runes[i+1:]))
		if begins {
			words, word = append(words, string(word)), nil
		}
		word = append(word, r)
	}
	words = append(words, string(word))
	for i, w := range words {
		if known, ok := acronyms[w]; ok {
			words[i] = known
			continue
		}
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, " ")
}

// plural says whether what follows a capital is the "s" of an acronym's plural.
func plural(rest []rune) bool {
	return rest[0] == 's' && (len(rest) == 1 || unicode.IsUpper(rest[1]))
}

// describeKind fills in the descriptors of an owned kind.
func describeKind(owned map[string]any, crd *apiextensionsv1.CustomResourceDefinition) error {
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Name != owned["version"] {
			continue
		}
		for part, field := range map[string]string{"spec": "specDescriptors", "status": "statusDescriptors"} {
			if all := describeFields(v.Schema.OpenAPIV3Schema, part); len(all) > 0 {
				owned[field] = all
			}
		}
		return nil
	}
	return fmt.Errorf("the CRD %s has no version %v", crd.Name, owned["version"])
}
