{{/* Nothing is rendered for a release that could not work. */}}
{{- define "fleet-agent.validate" -}}
{{- $namespace := .Values.internal.systemNamespace -}}
{{- $name := .Values.internal.managedReleaseName -}}
{{- if ne .Release.Namespace $namespace }}{{ fail (printf "install this chart in namespace %s, not in %s: helm --namespace %s" $namespace .Release.Namespace $namespace) }}{{ end -}}
{{- if ne .Release.Name $name }}{{ fail (printf "install this chart as release %s, not as %s" $name .Release.Name) }}{{ end -}}
{{- if not .Values.apiServerURL }}{{ fail "apiServerURL is required: set it in the manager's chart, and use the values of a registration token made after that" }}{{ end -}}
{{- if not .Values.tokenName }}{{ fail "tokenName is required: use the values of a ClusterRegistrationToken's Secret" }}{{ end -}}
{{- end -}}

{{- define "fleet-agent.image" -}}
{{- with .Values.global.cattle.systemDefaultRegistry }}{{ . }}/{{ end -}}
{{ .Values.image.repository }}:{{ default (printf "v%s" .Chart.AppVersion) .Values.image.tag }}
{{- end -}}
