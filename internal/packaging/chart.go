package main

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// generatedMark is the first line of each template that is made here: files without it are written by hand and stay.
const generatedMark = "{{- /* Made from config/ by `make chart`: change it there. */ -}}\n"

// chartTemplates returns the chart's templates by name: one for each object but the Namespace, which Helm has to find before it can remember
// a release there.
func chartTemplates(objects []*unstructured.Unstructured) (map[string]string, error) {
	templates := map[string]string{}
	for _, o := range objects {
		if o.GetKind() == "Namespace" {
			continue
		}
		text, err := chartTemplate(o.DeepCopy())
		if err != nil {
			return nil, fmt.Errorf("making a template of %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		name := templateName(o)
		if _, twice := templates[name]; twice {
			return nil, fmt.Errorf("two objects make the template %s", name)
		}
		templates[name] = text
	}
	return templates, nil
}

// templateName is the kind and the name, and the namespace where that is not the release's.
func templateName(o *unstructured.Unstructured) string {
	name := strings.ToLower(o.GetKind()) + "-" + o.GetName()
	if ns := o.GetNamespace(); ns != "" && ns != namespace {
		name += "-" + ns
	}
	return name + ".yaml"
}

func chartTemplate(o *unstructured.Unstructured) (string, error) {
	crd := o.GetKind() == "CustomResourceDefinition"
	metadata, _, err := unstructured.NestedMap(o.Object, "metadata")
	if err != nil {
		return "", err
	}
	delete(metadata, "creationTimestamp")
	metadata["labels"] = withBlock(metadata["labels"], "labels")
	if crd { // without them, what users have written would go
		metadata["annotations"] = withBlock(metadata["annotations"], "keep")
	}
	o.Object["metadata"] = metadata
	if o.GetKind() == "Deployment" {
		if err := openDeployment(o.Object); err != nil {
			return "", err
		}
	}
	text, err := encode(o.Object)
	if err != nil {
		return "", err
	}
	text = strings.ReplaceAll(text, "{{", `{{ "{{" }}`)
	if !crd {
		text = strings.ReplaceAll(text, namespace, "{{ .Release.Namespace }}")
	}
	text, err = fillBlocks(text)
	if condition := renderedIf(o); condition != "" {
		text = "{{- if " + condition + " }}\n" + text + "{{- end }}\n"
	}
	return generatedMark + text, err
}

// renderedIf returns the value of which an object depends, empty when there is none.
func renderedIf(o *unstructured.Unstructured) string {
	name := o.GetName()
	switch {
	case o.GetKind() == "CustomResourceDefinition":
		return ".Values.crds.install"
	case name == "lanyard-kube-proxy" || name == "lanyard-probe":
		return ".Values.manageKubeProxy"
	case strings.HasPrefix(name, "lanyard-metrics"):
		return ".Values.metrics.enabled"
	default:
		return ""
	}
}

// blocks are the lines that stand in a template in place of fields, by name. They are indented as what they replace.
var blocks = map[string]string{
	"labels":   `{{- include "lanyard.labels" . | nindent INDENT }}`,
	"keep":     `helm.sh/resource-policy: keep`,
	"replicas": `replicas: {{ .Values.replicas }}`,
	"image": `image: {{ include "lanyard.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}`,
	"resources": `resources:
  {{- toYaml .Values.resources | nindent DEEPER }}`,
	"podLabels": `{{- with .Values.podLabels }}
{{- toYaml . | nindent INDENT }}
{{- end }}`,
	"podAnnotations": `{{- with .Values.podAnnotations }}
{{- toYaml . | nindent INDENT }}
{{- end }}`,
	"placement": `{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent DEEPER }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent DEEPER }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent DEEPER }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent DEEPER }}
{{- end }}`,
	"args": `{{- if not .Values.metrics.enabled }}
- --metrics-bind-address=0
{{- end }}
{{- if not .Values.manageKubeProxy }}
- --manage-kube-proxy=false
{{- end }}
{{- with .Values.logLevel }}
- --zap-log-level={{ . }}
{{- end }}`,
}

const blockMark = "lanyard-block-"

// withBlock returns a map's copy with the place of a block in it.
func withBlock(fields any, block string) map[string]any {
	marked := map[string]any{}
	if all, ok := fields.(map[string]any); ok {
		for k, v := range all {
			marked[k] = v
		}
	}
	marked[blockMark+block] = ""
	return marked
}

// openDeployment puts blocks in the place of what values set.
func openDeployment(content map[string]any) error {
	spec, _, err := unstructured.NestedMap(content, "spec")
	if err != nil {
		return err
	}
	delete(spec, "replicas")
	spec = withBlock(spec, "replicas")
	template, ok := spec["template"].(map[string]any)
	if !ok {
		return fmt.Errorf("it has no pod template")
	}
	metadata, ok := template["metadata"].(map[string]any)
	if !ok {
		return fmt.Errorf("its pods have no metadata")
	}
	metadata["labels"] = withBlock(metadata["labels"], "podLabels")
	metadata["annotations"] = withBlock(metadata["annotations"], "podAnnotations")
	pod, ok := template["spec"].(map[string]any)
	if !ok {
		return fmt.Errorf("its pods have no spec")
	}
	for _, field := range []string{"priorityClassName", "imagePullSecrets", "nodeSelector", "affinity", "tolerations"} {
		delete(pod, field)
	}
	template["spec"] = withBlock(pod, "placement")
	containers, ok := pod["containers"].([]any)
	if !ok || len(containers) != 1 {
		return fmt.Errorf("it has not one container")
	}
	container := containers[0].(map[string]any)
	for _, field := range []string{"image", "imagePullPolicy", "resources"} {
		delete(container, field)
	}
	args, _ := container["args"].([]any)
	container["args"] = append(args, blockMark+"args")
	containers[0] = withBlock(withBlock(container, "image"), "resources")
	content["spec"] = spec
	return nil
}

var blockLine = regexp.MustCompile(`(?m)^( *)(?:- )?` + blockMark + `([A-Za-z]+)(?:: "")?\n`)

// fillBlocks puts the lines of each block in its place.
func fillBlocks(text string) (string, error) {
	var unknown error
	filled := blockLine.ReplaceAllStringFunc(text, func(line string) string {
		parts := blockLine.FindStringSubmatch(line)
		indent, name := parts[1], parts[2]
		lines, known := blocks[name]
		if !known {
			unknown = fmt.Errorf("there is no block %s", name)
		}
		lines = strings.ReplaceAll(lines, "INDENT", fmt.Sprint(len(indent)))
		lines = strings.ReplaceAll(lines, "DEEPER", fmt.Sprint(len(indent)+2))
		return indent + strings.ReplaceAll(lines, "\n", "\n"+indent) + "\n"
	})
	return filled, unknown
}
