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

{{/*
Resources of one container: its own, else those of both, else the defaults, of which
docs/charts.md says where they come from. Takes (list . "fleetController" "100m").
*/}}
{{- define "fleet.resources" -}}
{{- $values := default dict (index . 0).Values.resources -}}
{{- $own := get $values (index . 1) -}}
{{- $both := pick $values "limits" "requests" "claims" -}}
{{- if kindIs "map" $own -}}
{{ toYaml $own }}
{{- else if $both -}}
{{ toYaml $both }}
{{- else -}}
limits:
  memory: 4Gi
requests:
  cpu: {{ index . 2 }}
  memory: 128Mi
{{- end -}}
{{- end -}}

{{/*
The shards, as a JSON list: first that of all objects that name none, an empty map,
then those of the value shards, each id once.
*/}}
{{- define "fleet.shards" -}}
{{- $shards := list dict -}}
{{- $seen := list -}}
{{- range .Values.shards -}}
{{- if not (has .id $seen) -}}
{{- $shards = append $shards . -}}
{{- $seen = append $seen .id -}}
{{- end -}}
{{- end -}}
{{- toJson $shards -}}
{{- end -}}

{{/* The name of something for a shard. Takes (list "gitjob" $shard). */}}
{{- define "fleet.ofShard" -}}
{{- index . 0 }}{{ with (index . 1).id }}-shard-{{ . }}{{ end -}}
{{- end -}}

{{/* What all pods have in common. Takes (list . $shard). */}}
{{- define "fleet.scheduling" -}}
{{- $shard := index . 1 -}}
{{- with index . 0 -}}
nodeSelector:
  {{- merge (dict) ($shard.nodeSelector | default dict) (.Values.nodeSelector | default dict) (dict "kubernetes.io/os" "linux") | toYaml | nindent 2 }}
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

{{/* Labels of one container's pods. Takes (list . "fleetController" "fleet-controller" $shard). */}}
{{- define "fleet.podLabels" -}}
app: {{ index . 2 }}
# As the reference has them: what selects its pods selects these.
{{- with (index . 3).id }}
fleet.cattle.io/shard-id: {{ . | quote }}
{{- else }}
fleet.cattle.io/shard-default: "true"
fleet.cattle.io/shard-id: ""
{{- end }}
{{- with get (index . 0).Values.extraLabels (index . 1) }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "fleet.debug" -}}
{{- if or .Values.debug (gt (int .Values.debugLevel) 0) }}true{{ end -}}
{{- end -}}

{{/*
Environment of one container. Takes (list . metricsPort healthPort values), the
last of which may have a proxy and noProxy of its own.
*/}}
{{- define "fleet.env" -}}
{{- $root := index . 0 -}}
{{- $own := index . 3 -}}
- name: POD_UID
  valueFrom:
    fieldRef:
      fieldPath: metadata.uid
{{- $set := list -}}
{{- range $root.Values.extraEnv }}{{ $set = append $set .name }}{{ end }}
{{- if not (has "GOMEMLIMIT" $set) }}
# Go collects garbage more eagerly before the limit is reached. Without a limit it
# is the memory of the node.
- name: GOMEMLIMIT
  valueFrom:
    resourceFieldRef:
      resource: limits.memory
      divisor: "1"
{{- end }}
- name: FLEET_HEALTHPROBE_BIND_ADDRESS
  value: ":{{ index . 2 }}"
{{- if $root.Values.metrics.enabled }}
- name: FLEET_METRICS_BIND_ADDRESS
  value: ":{{ index . 1 }}"
{{- if $root.Values.metrics.allObjects }}
- name: FLEET_METRICS_ALL_OBJECTS
  value: "true"
{{- end }}
{{- end }}
- name: CATTLE_ELECTION_LEASE_DURATION
  value: {{ $root.Values.leaderElection.leaseDuration }}
- name: CATTLE_ELECTION_RETRY_PERIOD
  value: {{ $root.Values.leaderElection.retryPeriod }}
- name: CATTLE_ELECTION_RENEW_DEADLINE
  value: {{ $root.Values.leaderElection.renewDeadline }}
{{- with default $root.Values.proxy $own.proxy }}
- name: HTTP_PROXY
  value: {{ . | quote }}
- name: HTTPS_PROXY
  value: {{ . | quote }}
- name: NO_PROXY
  value: {{ default $root.Values.noProxy $own.noProxy | quote }}
{{- end }}
{{- with $root.Values.allowedReservedCIDRs }}
- name: FLEET_ALLOWED_RESERVED_CIDRS
  value: {{ join "," . | quote }}
{{- end }}
{{- if $root.Values.proxyCACert }}
# Read besides the well-known authorities of the image.
- name: SSL_CERT_DIR
  value: /etc/fleet/proxy-ca
{{- end }}
{{- with $root.Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
Ports and probes of one container. Takes (list . metricsPort healthPort webhookPort), the
last of which is 0 for a container that receives no webhooks.
*/}}
{{- define "fleet.ports" -}}
ports:
  {{- with index . 3 }}
  - name: webhook
    containerPort: {{ . }}
  {{- end }}
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
  timeoutSeconds: 5
readinessProbe:
  httpGet:
    path: /readyz
    port: health
  periodSeconds: 10
  timeoutSeconds: 5
{{- end -}}

{{/* Volumes of one pod, and where its container has them. */}}
{{- define "fleet.volumes" -}}
volumes:
  - name: tmp
    emptyDir: {}
  {{- if .Values.proxyCACert }}
  - name: proxy-ca
    configMap:
      name: proxy-ca
  {{- end }}
{{- end -}}

{{- define "fleet.volumeMounts" -}}
volumeMounts:
  - name: tmp
    mountPath: /tmp
  {{- if .Values.proxyCACert }}
  - name: proxy-ca
    mountPath: /etc/fleet/proxy-ca
    readOnly: true
  {{- end }}
{{- end -}}
