{{/* Nothing is rendered for a release that could not work. */}}
{{- define "fleet-agent.validate" -}}
{{- $namespace := .Values.internal.systemNamespace -}}
{{- $name := .Values.internal.managedReleaseName -}}
{{- if ne .Release.Namespace $namespace }}{{ fail (printf "install this chart in namespace %s, not in %s: helm --namespace %s" $namespace .Release.Namespace $namespace) }}{{ end -}}
{{- if ne .Release.Name $name }}{{ fail (printf "install this chart as release %s, not as %s" $name .Release.Name) }}{{ end -}}
{{- if not .Values.apiServerURL }}{{ fail "apiServerURL is required: set it in the manager's chart, and use the values of a registration token made after that" }}{{ end -}}
{{- if not .Values.tokenName }}{{ fail "tokenName is required: use the values of a ClusterRegistrationToken's Secret" }}{{ end -}}
{{- include "fleet-agent.given" . -}}
{{- end -}}

{{/*
Values of the reference that nothing here could act on. Each line: the path, as
JSON what it may be (empty is always allowed), and what to do about another value.
*/}}
{{- define "fleet-agent.given" -}}
{{- $given := list
  (list "garbageCollectionInterval" (list `"15m"` `"15m0s"` `"0"` `"0s"` `0`) "the agent looks for orphans all the time: see orphanPolicy")
  (list "agent.reconciler.workers.drift" (list `"50"` `50`) "drift is looked for by the workers of agent.reconciler.workers.bundledeployment")
  (list "kubectl.nodeSelector" (list `{}`) "there is no Job that runs kubectl")
-}}
{{- range $given -}}
{{- $value := $.Values -}}
{{- range splitList "." (index . 0) -}}
{{- if kindIs "map" $value }}{{ $value = get $value . }}{{ end -}}
{{- end -}}
{{- if not (has (toJson $value) (concat (list `null` `""`) (index . 1))) -}}
{{- fail (printf "%s must not be %s: %s" (index . 0) (toJson $value) (index . 2)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "fleet-agent.debug" -}}
{{- if or .Values.debug (gt (int .Values.debugLevel) 0) }}true{{ end -}}
{{- end -}}

{{- define "fleet-agent.image" -}}
{{- with .Values.global.cattle.systemDefaultRegistry }}{{ . }}/{{ end -}}
{{ .Values.image.repository }}:{{ default (printf "v%s" .Chart.AppVersion) .Values.image.tag }}
{{- end -}}
