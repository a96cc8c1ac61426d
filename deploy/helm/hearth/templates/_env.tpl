{{/*
A variable from a Secret: the one in secretRefs, else existingSecret, else the one that this chart creates from
secretValues. Arguments: root, name, and optional if the process can run without it.
*/}}
{{- define "hearth.secret" -}}
{{- $values := .root.Values -}}
{{- $ref := get $values.secretRefs .name -}}
{{- $given := hasKey $values.secretValues .name -}}
{{- $secret := "" -}}
{{- $key := .name -}}
{{- if $ref -}}
{{- $secret = $ref.name -}}
{{- $key = $ref.key -}}
{{- else if $given -}}
{{- $secret = default (include "hearth.fullname" .root) .createdSecret -}}
{{- else -}}
{{- $secret = $values.existingSecret -}}
{{- end -}}
{{- if $secret -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ $secret }}
      key: {{ $key }}
      {{- if .optional }}
      optional: true
      {{- end }}
{{- else if not .optional -}}
{{- fail (printf "%s is missing: name a Secret that has it in existingSecret or in secretRefs.%s, or set secretValues.%s" .name .name .name) -}}
{{- end -}}
{{- end -}}

{{/* The database's URL; the bundled database's contains its password, which must need no escapes in a URL. */}}
{{- define "hearth.databaseEnv" -}}
{{- if .root.Values.postgresql.bundled -}}
{{ include "hearth.secret" (merge (dict "name" "POSTGRES_PASSWORD") .) }}
- name: DATABASE_URL
  value: postgres://hearth:$(POSTGRES_PASSWORD)@{{ include "hearth.fullname" .root }}-postgresql:5432/hearth
{{- else -}}
{{ include "hearth.secret" (merge (dict "name" "DATABASE_URL") .) }}
{{- end -}}
{{- end -}}

{{- define "hearth.temporalEnv" -}}
{{- $temporal := .root.Values.temporal -}}
- name: TEMPORAL_ADDRESS
  value: {{ include "hearth.temporalAddress" .root | quote }}
- name: TEMPORAL_NAMESPACE
  value: {{ $temporal.namespace | quote }}
{{- if $temporal.tls.enabled }}
- name: TEMPORAL_TLS
  value: '1'
{{- with $temporal.tls.serverName }}
- name: TEMPORAL_TLS_SERVER_NAME
  value: {{ . | quote }}
{{- end }}
{{- if $temporal.tls.secretName }}
- name: TEMPORAL_TLS_CA
  value: /etc/hearth/temporal-tls/ca.crt
{{- if $temporal.tls.clientCertificate }}
- name: TEMPORAL_TLS_CERT
  value: /etc/hearth/temporal-tls/tls.crt
- name: TEMPORAL_TLS_KEY
  value: /etc/hearth/temporal-tls/tls.key
{{- end }}
{{- end }}
{{- end }}
{{- with include "hearth.secret" (merge (dict "name" "TEMPORAL_API_KEY" "optional" true) .) }}
{{ . }}
{{- end }}
{{- end -}}

{{- define "hearth.s3Env" -}}
{{- $store := .root.Values.objectStore -}}
- name: S3_BUCKET
  value: {{ $store.bucket | quote }}
- name: S3_REGION
  value: {{ $store.region | quote }}
{{- with include "hearth.s3Endpoint" .root }}
- name: S3_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- with $store.publicEndpoint }}
- name: S3_PUBLIC_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- if $store.bundled }}
- name: S3_ACCESS_KEY_ID
  value: hearth
{{- else }}
{{ include "hearth.secret" (merge (dict "name" "S3_ACCESS_KEY_ID") .) }}
{{- end }}
{{ include "hearth.secret" (merge (dict "name" "S3_SECRET_ACCESS_KEY") .) }}
{{- end -}}

{{/* Settings from the values, as variables. Argument: a map of names to text. */}}
{{- define "hearth.configEnv" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* What gateways and workers have in common. Argument: root. */}}
{{- define "hearth.controlEnv" -}}
{{ include "hearth.databaseEnv" . }}
{{ include "hearth.temporalEnv" . }}
{{ include "hearth.s3Env" . }}
{{ include "hearth.secret" (dict "root" .root "name" "HEARTH_ENCRYPTION_KEYS") }}
{{- range $name := list "HEARTH_HUB_TOKEN" "HEARTH_EVALUATOR_TOKEN" }}
{{- with include "hearth.secret" (dict "root" $.root "name" $name "optional" true) }}
{{ . }}
{{- end }}
{{- end }}
{{- with include "hearth.publicUrl" .root }}
- name: HEARTH_PUBLIC_URL
  value: {{ . | quote }}
{{- end }}
- name: MALLOC_ARENA_MAX
  value: '2'
{{- include "hearth.configEnv" .root.Values.config }}
{{- end -}}
