{{/*
Values of the reference that nothing here could act on. Each line: the path, as
JSON what it may be (empty is always allowed), and what to do about another value.
What a user chose is so never passed over in silence, and values files of the
reference that keep its defaults are accepted.
*/}}
{{- define "fleet.validate" -}}
{{- $given := list
  (list "garbageCollectionInterval" (list `"15m"` `"15m0s"` `"0"` `"0s"` `0`) "agents uninstall nothing because it is missing, so there is no interval")
  (list "clusterEnqueueDelay" list "what changes is counted at once, so there is no delay")
  (list "gitops.syncPeriod" (list `"2h"` `"2h0m0s"` `"0"` `"0s"` `0`) "no event is lost, so there is no period")
  (list "resources.fleetCleanup" (list `{}`) "this part runs in the container fleet-controller: set resources.fleetController")
  (list "resources.fleetAgentmanagement" (list `{}`) "this part runs in the container fleet-controller: set resources.fleetController")
  (list "agent.reconciler.workers.drift" (list `"50"` `50`) "drift is looked for by the workers of agent.reconciler.workers.bundledeployment")
  (list "migrations.clusterRegistrationCleanup" (list `true`) "the manager always removes old registrations")
  (list "migrations.gitrepoJobsCleanup" (list `true`) "there are no Jobs")
  (list "migrations.gitrepoHelmURLRegexMigration" (list `true`) "gitjob always sets helmRepoURLRegex of GitRepos that an older Fleet has read")
-}}
{{- range list "bundledeployment" "cluster" "clustergroup" "schedule" "content" -}}
{{- $given = append $given (list (printf "controller.reconciler.workers.%s" .) (list `"50"` `50`) "there are no such workers") -}}
{{- end -}}
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
