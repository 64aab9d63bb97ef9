{{- define "warren.name" -}}
{{- printf "%s-warren" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "warren.selector" -}}
app.kubernetes.io/name: warren
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "warren.labels" -}}
{{ include "warren.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "warren.secret" -}}
{{- if .Values.auth.existingSecret -}}
{{ .Values.auth.existingSecret }}
{{- else -}}
{{ include "warren.name" . }}
{{- end -}}
{{- end -}}

{{- /* Where the nodes of a cluster reach each other: names of pods by the service without an address. */ -}}
{{- define "warren.seeds" -}}
{{- $name := include "warren.name" . -}}
{{- range $i := until (int .Values.replicas) -}}
{{- if $i }},{{ end -}}
{{- printf "%s-%d.%s-node:25672" $name $i $name -}}
{{- end -}}
{{- end -}}
