{{/* The prefix of every object's name. It leaves room for the longest suffix and the number of a pod. */}}
{{- define "hearth.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 36 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 36 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels by which Services, policies and budgets select pods. Arguments: root, component, and pool for nodes. */}}
{{- define "hearth.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- with .pool }}
hearth/pool: {{ . }}
{{- end }}
{{- end -}}

{{/* All labels of an object. Arguments as above. */}}
{{- define "hearth.labels" -}}
{{ include "hearth.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{/* The image of a process. Arguments: root, image (control or node). */}}
{{- define "hearth.image" -}}
{{- $image := .root.Values.image -}}
{{- with $image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ get $image .image }}:{{ default .root.Chart.AppVersion $image.tag }}
{{- end -}}

{{- define "hearth.gatewayUrl" -}}
http://{{ include "hearth.fullname" . }}-gateway.{{ .Release.Namespace }}.svc:{{ .Values.gateway.service.port }}
{{- end -}}

{{- define "hearth.gateUrl" -}}
{{- $scheme := ternary "https" "http" (ne .Values.gate.tls.secretName "") -}}
{{- default (printf "%s://%s-gate.%s.svc:%v" $scheme (include "hearth.fullname" .) .Release.Namespace .Values.gate.service.port) .Values.gate.url -}}
{{- end -}}

{{/* The URL that clients use; empty if neither it nor an Ingress is configured. */}}
{{- define "hearth.publicUrl" -}}
{{- if .Values.publicUrl -}}
{{- .Values.publicUrl -}}
{{- else if .Values.ingress.enabled -}}
{{- ternary "https" "http" .Values.ingress.tls.enabled }}://{{ .Values.ingress.host }}
{{- end -}}
{{- end -}}

{{- define "hearth.s3Endpoint" -}}
{{- if .Values.objectStore.bundled -}}
http://{{ include "hearth.fullname" . }}-s3:7070
{{- else -}}
{{- .Values.objectStore.endpoint -}}
{{- end -}}
{{- end -}}

{{- define "hearth.temporalAddress" -}}
{{- if .Values.temporal.bundled -}}
{{ include "hearth.fullname" . }}-temporal:7233
{{- else -}}
{{- .Values.temporal.address -}}
{{- end -}}
{{- end -}}

{{- define "hearth.nodeTokenSecret" -}}
{{- default (printf "%s-node-tokens" (include "hearth.fullname" .)) .Values.nodes.tokenSecret -}}
{{- end -}}
