package main

import (
	"io"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// linesOfReference are command lines with every flag of rancher/fleet's command line, v0.13
// to v0.16, as its documentation and its git jobs write them.
var linesOfReference = []string{
	"apply -f fleet.yaml -b bundle.yaml -o - -l a=b --targets-file t.yaml -c -a account --sync-generation 3 --target-namespace ns --paused --commit c name path",
	"apply --file fleet.yaml --bundle-file bundle.yaml --output out --label a=b --compress --service-account account --debug --debug-level 1 name a b",
	"apply --username u --password-file p --cacerts-file c --ssh-privatekey-file k --helm-repo-url-regex r --keep-resources --delete-namespace name",
	"apply --helm-credentials-by-path-file f --helm-basic-http --helm-insecure-skip-tls --correct-drift --correct-drift-force --correct-drift-keep-fail-history name",
	"apply --oci-registry-secret s --driven-scan --driven-scan-sep : --bundle-creation-max-concurrency 4 --imagescan-enabled -n ns -k kubeconfig --context c name",
	"apply --sync-generation=1 --helm-basic-http=false --helm-insecure-skip-tls=false --namespace ns --kubeconfig k name",
	"test -f fleet.yaml -b bundle.yaml -q -g group -N name -l a=b -L c=d -t target path",
	"test --file fleet.yaml --bundle-file b --quiet --group g --name n --label a=b --group-label c=d --target t",
	"target -b bundle.yaml -l -n ns",
	"target --bundle-file bundle.yaml --dump-input-list --debug",
	"deploy -i in.yaml -d -n ns --kube-version v1.30.0 -a agent",
	"deploy --input-file in.yaml --dry-run --namespace ns --agent-namespace a",
	"cleanup clusterregistration --min 10ms --max 3s --factor 1.1",
	"cleanup gitjob --batch-size 5000 --debug-level 2",
	"dump -p out.tgz -l 500 -A --with-secrets --with-content",
	"dump --dump-path out.tgz --fetch-limit 0 --all-namespaces --with-secrets-metadata --with-content-metadata -n ns --gitrepo r --bundle b --helmop h",
	"bundlediff --bundle-deployment bd -b b --json --fleet-yaml -n ns",
	"--version",
}

// Each flag of the reference is one of ours.
func TestCommandLinesOfTheReference(t *testing.T) {
	for _, line := range linesOfReference {
		root := newRootCommand(printer.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
		root.InitDefaultVersionFlag()
		cmd, args, err := root.Find(strings.Fields(line))
		if err == nil {
			err = cmd.ParseFlags(args)
		}
		if err != nil {
			t.Errorf("fleet %s: %v", line, err)
		}
	}
}

// For a command of the reference that there is not, the error says what does the same.
func TestCommandsOfTheReference(t *testing.T) {
	for line, want := range map[string]string{
		"migrate gitrepo-helm-url-regex":   "gitjob sets helmRepoURLRegex",
		"gitcloner https://git.invalid/ d": "fleet-controller gitcloner",
	} {
		root := newRootCommand(printer.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
		root.SetArgs(strings.Fields(line))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("fleet %s: got %v", line, err)
		}
	}
}
