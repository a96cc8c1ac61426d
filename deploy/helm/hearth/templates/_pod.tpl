{{/*
Settings of every pod. Without enableServiceLinks: false, Kubernetes would set HEARTH_GATE_PORT to a URL, because the
gate's Service has that name. Arguments: root, and values with nodeSelector, tolerations, affinity, priorityClassName;
user is the id that the image's processes run as.
*/}}
{{- define "hearth.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ default 1000 .user }}
  runAsGroup: {{ default 1000 .user }}
  fsGroup: {{ default 1000 .user }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: {{ default "RuntimeDefault" .seccomp }}
  {{- with .appArmor }}
  appArmorProfile:
    type: {{ . }}
  {{- end }}
{{- with .values }}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Security settings of every container. */}}
{{- define "hearth.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Prefers different machines for the pods of a component. Arguments as for hearth.selector. */}}
{{- define "hearth.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "hearth.selector" . | nindent 8 }}
{{- end -}}

{{/* Changes when this chart's own Secret changes, so that pods restart. Argument: root. */}}
{{- define "hearth.podAnnotations" -}}
{{- with .root.Values.secretValues }}
checksum/secret: {{ toJson . | sha256sum }}
{{- end }}
{{- with .values.annotations }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Temporal's certificates, as a volume and as a mount. Argument: root. */}}
{{- define "hearth.temporalTlsVolume" -}}
{{- if and .Values.temporal.tls.enabled .Values.temporal.tls.secretName }}
- name: temporal-tls
  secret:
    secretName: {{ .Values.temporal.tls.secretName }}
{{- end }}
{{- end -}}

{{- define "hearth.temporalTlsMount" -}}
{{- if and .Values.temporal.tls.enabled .Values.temporal.tls.secretName }}
- name: temporal-tls
  mountPath: /etc/hearth/temporal-tls
  readOnly: true
{{- end }}
{{- end -}}

{{/* A PodDisruptionBudget. Arguments: root, component, budget, and pool for nodes. */}}
{{- define "hearth.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "hearth.fullname" .root }}-{{ .component }}{{ with .pool }}-{{ . }}{{ end }}
  labels: {{- include "hearth.labels" . | nindent 4 }}
spec:
  {{- toYaml .budget | nindent 2 }}
  selector:
    matchLabels: {{- include "hearth.selector" . | nindent 6 }}
{{- end -}}

{{/* Pods of this release by component, as peers of a NetworkPolicy. Arguments: root, components. */}}
{{- define "hearth.peers" -}}
- podSelector:
    matchExpressions:
      - { key: app.kubernetes.io/instance, operator: In, values: [{{ .root.Release.Name }}] }
      - { key: app.kubernetes.io/component, operator: In, values: [{{ join ", " .components }}] }
{{- end -}}
