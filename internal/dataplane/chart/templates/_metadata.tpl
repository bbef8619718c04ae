{{- /* The labels of every object. component and managed-by are also how the manager knows its own. */ -}}
{{- define "labels" -}}
app.kubernetes.io/name: lanyard
app.kubernetes.io/component: speaker
app.kubernetes.io/managed-by: lanyard
{{- end -}}

{{- /* With the manager's Deployment the objects go too: uninstalling leaves no speaker behind. */ -}}
{{- define "owner" -}}
{{- with .Values.owner }}
ownerReferences:
- apiVersion: apps/v1
  kind: Deployment
  name: {{ .name }}
  uid: {{ .uid }}
{{- end }}
{{- end -}}
