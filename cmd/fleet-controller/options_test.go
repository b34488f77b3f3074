package main

import (
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/pkg/controllers"
)

func TestOptions(t *testing.T) {
	cases := map[string]struct {
		why  string
		args []string
		env  map[string]string
		want string
	}{
		"UnknownRole": {"a typing error must not start a process that does nothing", []string{"--roles=controler"}, nil,
			`--roles: "controler" is none of controller, agentmanagement, cleanup, workspace, gitjob`},
		"UnknownMode": {"a typing error must not let two write", []string{"--workspace-mode=racher"}, nil, `--workspace-mode: workspace.mode is "racher", want auto, rancher or standalone`},
		"HalfALease": {"two of three times are a mistake", nil,
			map[string]string{"CATTLE_ELECTION_LEASE_DURATION": "30s", "CATTLE_ELECTION_RETRY_PERIOD": "2s"},
			"CATTLE_ELECTION_LEASE_DURATION, CATTLE_ELECTION_RENEW_DEADLINE, CATTLE_ELECTION_RETRY_PERIOD: all three are needed, 2 are set"},
		"OddTruth": {"a typing error must not switch something on or off", nil, map[string]string{"OCI_STORAGE": "nope"}, `OCI_STORAGE: "nope" is neither true nor false`},
		"OddNumber": {"no worker would mean no work", nil, map[string]string{"GITREPO_RECONCILER_WORKERS": "0"},
			`GITREPO_RECONCILER_WORKERS: "0" is not a number from 1 to 500`},
		"NoTime": {"a remote that may take no time fails", nil, map[string]string{"FLEET_GIT_CLIENT_TIMEOUT": "30"},
			`FLEET_GIT_CLIENT_TIMEOUT: "30" is not a duration above 0`},
		"NoCluster": {"outside of a cluster a kubeconfig is needed", []string{"--kubeconfig=/nonexistent"}, nil, "/nonexistent"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cmd := newCommand(func(k string) string { return c.env[k] }, io.Discard)
			cmd.SetArgs(c.args)
			cmd.SetOut(io.Discard)
			err := cmd.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v", c.why, err)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	a, b := defaultIdentity("/x/kubeconfig"), defaultIdentity("/y/kubeconfig")
	if a == b || a != defaultIdentity("/x/kubeconfig") {
		t.Errorf("an identity is one for each state folder, and the same after a restart: %q, %q", a, b)
	}
}

func TestGitJob(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want controllers.GitJob
	}{
		"Default": {nil, controllers.GitJob{}},
		"All": {map[string]string{
			"OCI_STORAGE": "false", "IMAGESCAN_ENABLED": "true", "GITREPO_RECONCILER_WORKERS": "12",
			"IMAGESCAN_RECONCILER_WORKERS": "7", "FLEET_GIT_CLIENT_TIMEOUT": "1m", "FLEET_INSECURE_SKIP_HOST_KEY_CHECKS": "true",
		},
			controllers.GitJob{NoOCIStorage: true, AcceptUnknownHosts: true, Workers: 12, ImageScanWorkers: 7, Timeout: time.Minute}},
	} {
		var o options
		if err := o.completeGitJob(func(k string) string { return c.env[k] }); err != nil || !reflect.DeepEqual(o.gitJob, c.want) {
			t.Errorf("%s: want %+v, got %+v, %v", name, c.want, o.gitJob, err)
		}
		if o.imageScans != (c.env["IMAGESCAN_ENABLED"] == "true") {
			t.Errorf("%s: image scanning is %t", name, o.imageScans)
		}
	}
}

// All faults of the environment are named, always in the same order.
func TestGitJobFaults(t *testing.T) {
	env := map[string]string{
		"OCI_STORAGE": "perhaps", "IMAGESCAN_ENABLED": "no way", "GITREPO_RECONCILER_WORKERS": "0", "HELMOPS_RECONCILER_WORKERS": "501",
		"FLEET_GIT_CLIENT_TIMEOUT": "soon",
	}
	const want = `OCI_STORAGE: "perhaps" is neither true nor false
IMAGESCAN_ENABLED: "no way" is neither true nor false
GITREPO_RECONCILER_WORKERS: "0" is not a number from 1 to 500
HELMOPS_RECONCILER_WORKERS: "501" is not a number from 1 to 500
FLEET_GIT_CLIENT_TIMEOUT: "soon" is not a duration above 0`
	for range 20 {
		var o options
		if err := o.completeGitJob(func(k string) string { return env[k] }); err == nil || err.Error() != want {
			t.Fatalf("want\n%s\ngot\n%v", want, err)
		}
	}
}

// Schedules are off, and without a zone of the process they are in UTC.
func TestSchedules(t *testing.T) {
	for name, c := range map[string]struct {
		env      map[string]string
		on       bool
		location string
		fault    string
	}{
		"Default": {nil, false, "", ""},
		"On":      {map[string]string{"EXPERIMENTAL_SCHEDULES": "true"}, true, "", ""},
		"Off":     {map[string]string{"EXPERIMENTAL_SCHEDULES": "false", "TZ": "Moon/Base"}, false, "Moon/Base", ""},
		"Zone":    {map[string]string{"EXPERIMENTAL_SCHEDULES": "true", "TZ": "Europe/Berlin"}, true, "Europe/Berlin", ""},
		"Colon":   {map[string]string{"EXPERIMENTAL_SCHEDULES": "true", "TZ": ":Europe/Berlin"}, true, "Europe/Berlin", ""},
		"Local":   {map[string]string{"EXPERIMENTAL_SCHEDULES": "true", "TZ": "Local"}, true, "", ""},
		"NoZone":  {map[string]string{"EXPERIMENTAL_SCHEDULES": "true", "TZ": "Moon/Base"}, true, "Moon/Base", `TZ: unknown time zone "Moon/Base"`},
		"NoTruth": {map[string]string{"EXPERIMENTAL_SCHEDULES": "maybe"}, false, "", `EXPERIMENTAL_SCHEDULES: "maybe" is neither true nor false`},
	} {
		var o options
		fault := ""
		if err := o.completeGitJob(func(k string) string { return c.env[k] }); err != nil {
			fault = err.Error()
		}
		if o.schedules != c.on || o.location != c.location || fault != c.fault {
			t.Errorf("%s: got %t, %q, %q", name, o.schedules, o.location, fault)
		}
	}
}

func TestLease(t *testing.T) {
	env := map[string]string{"CATTLE_ELECTION_LEASE_DURATION": "30s", "CATTLE_ELECTION_RENEW_DEADLINE": "20s", "CATTLE_ELECTION_RETRY_PERIOD": "5s"}
	got, err := leaseFrom(func(k string) string { return env[k] })
	if err != nil {
		t.Fatal(err)
	}
	want := lease{duration: 30 * time.Second, renew: 20 * time.Second, retry: 5 * time.Second}
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
