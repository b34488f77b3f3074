{{/* image: registry prefix, repository and tag. Takes (list . .Values.image). */}}
{{- define "fleet.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- with $root.Values.global.cattle.systemDefaultRegistry }}{{ . }}/{{ end -}}
{{ $image.repository }}:{{ include "fleet.imageTag" . }}
{{- end -}}

{{- define "fleet.imageTag" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- default (printf "v%s" $root.Chart.AppVersion) $image.tag -}}
{{- end -}}

{{/* The workspace of the local cluster; "-" where there is to be none. */}}
{{- define "fleet.bootstrapNamespace" -}}
{{- if .Values.bootstrap.enabled }}{{ default "-" .Values.bootstrap.namespace }}{{ else }}-{{ end -}}
{{- end -}}

{{- define "fleet.bootstrapped" -}}
{{- if ne (include "fleet.bootstrapNamespace" .) "-" }}true{{ end -}}
{{- end -}}

{{/* Resources of one container. Takes (list . "fleetController"). */}}
{{- define "fleet.resources" -}}
{{- $values := (index . 0).Values.resources -}}
{{- $own := get $values (index . 1) -}}
{{- if kindIs "map" $own }}{{ toYaml $own }}{{ else }}{{ toYaml (omit $values "fleetController" "gitjob") }}{{ end -}}
{{- end -}}

{{/* What both pods have in common. */}}
{{- define "fleet.scheduling" -}}
nodeSelector:
  kubernetes.io/os: linux
  {{- with .Values.nodeSelector }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
tolerations:
  - key: cattle.io/os
    operator: Equal
    value: linux
    effect: NoSchedule
  {{- with .Values.tolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.global.cattle.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if not .Values.disableSecurityContext }}
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  seccompProfile:
    type: RuntimeDefault
{{- end }}
{{- end -}}

{{- define "fleet.containerSecurity" -}}
{{- if not .Values.disableSecurityContext }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  privileged: false
  capabilities:
    drop: [ALL]
{{- end }}
{{- end -}}

{{/* Environment of one container. Takes (list . metricsPort healthPort). */}}
{{- define "fleet.env" -}}
{{- $root := index . 0 -}}
- name: POD_UID
  valueFrom:
    fieldRef:
      fieldPath: metadata.uid
- name: FLEET_HEALTHPROBE_BIND_ADDRESS
  value: ":{{ index . 2 }}"
{{- if $root.Values.metrics.enabled }}
- name: FLEET_METRICS_BIND_ADDRESS
  value: ":{{ index . 1 }}"
{{- end }}
- name: CATTLE_ELECTION_LEASE_DURATION
  value: {{ $root.Values.leaderElection.leaseDuration }}
- name: CATTLE_ELECTION_RETRY_PERIOD
  value: {{ $root.Values.leaderElection.retryPeriod }}
- name: CATTLE_ELECTION_RENEW_DEADLINE
  value: {{ $root.Values.leaderElection.renewDeadline }}
{{- with $root.Values.proxy }}
- name: HTTP_PROXY
  value: {{ . | quote }}
- name: HTTPS_PROXY
  value: {{ . | quote }}
- name: NO_PROXY
  value: {{ $root.Values.noProxy | quote }}
{{- end }}
{{- with $root.Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Ports and probes of one container. Takes (list . metricsPort healthPort). */}}
{{- define "fleet.ports" -}}
ports:
  {{- if (index . 0).Values.metrics.enabled }}
  - name: metrics
    containerPort: {{ index . 1 }}
  {{- end }}
  - name: health
    containerPort: {{ index . 2 }}
livenessProbe:
  httpGet:
    path: /healthz
    port: health
  periodSeconds: 20
readinessProbe:
  httpGet:
    path: /readyz
    port: health
  periodSeconds: 10
{{- end -}}
