package commands

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
)

func TestValidate(t *testing.T) {
	cluster := func(name string, labels map[string]string) fleet.Downstream {
		return fleet.Downstream{Name: name, Labels: labels}
	}
	env := func(value string) map[string]string { return map[string]string{"env": value} }
	cases := map[string]struct {
		why     string
		options upOptions
		want    []fleet.Downstream
		err     string
	}{
		"Default": {
			why:     "the tour moves a bundle by env=prod",
			options: upOptions{clusters: 2},
			want:    []fleet.Downstream{cluster("c1", env("dev")), cluster("c2", env("prod"))},
		},
		"Three": {
			why:     "what lies between first and last is test",
			options: upOptions{clusters: 3},
			want:    []fleet.Downstream{cluster("c1", env("dev")), cluster("c2", env("test")), cluster("c3", env("prod"))},
		},
		"One": {
			why:     "all examples are deployed somewhere",
			options: upOptions{clusters: 1},
			want:    []fleet.Downstream{cluster("c1", env("prod"))},
		},
		"Labels": {
			why:     "labels add to the default and replace it",
			options: upOptions{clusters: 1, labels: []string{"c1=env=qa", "c1=example.com/ring=1", "c1=empty="}},
			want:    []fleet.Downstream{cluster("c1", map[string]string{"env": "qa", "example.com/ring": "1", "empty": ""})},
		},
		"Managed": {
			why:     "a lower manager and its own leaf, each of which can be labelled",
			options: upOptions{managed: true, clusters: 2, labels: []string{"leaf=ring=1"}},
			want: []fleet.Downstream{{
				Name: "lower", Labels: env("prod"),
				Downstream: []fleet.Downstream{cluster("leaf", map[string]string{"env": "prod", "ring": "1"})},
			}},
		},
		"UnknownLeaf": {
			why:     "all tiers are named",
			options: upOptions{managed: true, labels: []string{"c1=env=prod"}},
			err:     `--label "c1=env=prod": there is no cluster "c1"; there are lower, leaf`,
		},
		"UnknownCluster": {
			why:     "a typo is refused before anything is built",
			options: upOptions{clusters: 2, labels: []string{"c3=env=prod"}},
			err:     `--label "c3=env=prod": there is no cluster "c3"; there are c1, c2`,
		},
		"NoCluster": {
			why:     "kubectl's form lacks the cluster",
			options: upOptions{clusters: 2, labels: []string{"env=prod"}},
			err:     `--label "env=prod": want CLUSTER=KEY=VALUE, as in c1=env=prod`,
		},
		"BadKey": {
			why:     "the API server would refuse it later",
			options: upOptions{clusters: 1, labels: []string{"c1=-x=y"}},
			err:     `--label "c1=-x=y": want CLUSTER=KEY=VALUE, as in c1=env=prod`,
		},
		"Negative": {
			why:     "there is no such fleet",
			options: upOptions{clusters: -1},
			err:     "--clusters -1: want 0 to 200",
		},
		"Output": {
			why:     "there is one format",
			options: upOptions{output: "yaml"},
			err:     "-o yaml: want json",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.options.timeout = time.Minute
			got, err := c.options.validate()
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != c.err {
				t.Errorf("%s: want error %q, got %q", c.why, c.err, text)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func TestKubernetesIn(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "kubernetes-1234")
	if _, err := kubernetesIn(dir); err == nil {
		t.Error("an empty folder holds no executable")
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetesIn(dir); err == nil {
		t.Error("a file that cannot be executed is none")
	}
	if err := os.Chmod(file, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, given := range []string{dir, file} {
		if got, err := kubernetesIn(given); err != nil || got != file {
			t.Errorf("%s: want %s, got %s, %v", given, file, got, err)
		}
	}
}

func TestRepositoryName(t *testing.T) {
	cases := map[string]string{
		"/home/ana/Shops":                  "shops",
		"https://git.example/team/web.git": "web",
		"git@git.example:team/web_app.git": "web-app",
		"/":                                "repo",
		"/tmp/...":                         "repo",
		"/x/a-very-long-name-that-goes-on-and-on-and-on-and-on": "a-very-long-name-that-goes-on-and-on-and",
	}
	for given, want := range cases {
		if got := repositoryName(given); got != want {
			t.Errorf("%s: want %q, got %q", given, want, got)
		}
	}
}

func TestParseHead(t *testing.T) {
	branch, commit, err := parseHead("ref: refs/heads/trunk\tHEAD\n3f9c2e1b\tHEAD\n")
	if err != nil || branch != "trunk" || commit != "3f9c2e1b" {
		t.Errorf("want trunk at 3f9c2e1b, got %q at %q, %v", branch, commit, err)
	}
	if _, _, err := parseHead("3f9c2e1b\tHEAD\n"); err == nil {
		t.Error("a detached HEAD names no branch")
	}
}

func FuzzParseHead(f *testing.F) {
	f.Add("ref: refs/heads/trunk\tHEAD\n3f9c2e1b\tHEAD\n")
	f.Fuzz(func(t *testing.T, text string) {
		if branch, commit, err := parseHead(text); err == nil && (branch == "" || commit == "") {
			t.Errorf("no error, but branch %q and commit %q", branch, commit)
		}
	})
}

// Each manager has a cluster for each example: else the fleet would never be Ready.
func TestTiersGetAllExamples(t *testing.T) {
	root, err := source.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "examples", "metrics", "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "overrideTargets:") || strings.Count(string(text), "env: prod") != 1 {
		t.Fatal("it is another example now: look again which clusters it needs")
	}
	for list := threeTiers(); len(list) > 0; list = list[0].Downstream {
		if !slices.ContainsFunc(list, func(d fleet.Downstream) bool { return d.Labels["env"] == "prod" }) {
			t.Errorf("nothing is env=prod among %v", list)
		}
	}
}

func TestTiers(t *testing.T) {
	want := []string{"the manager on local manages lower", "the manager on lower manages leaf"}
	if diff := cmp.Diff(want, tiers(threeTiers())); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := tiers([]fleet.Downstream{{Name: "c1"}, {Name: "c2"}}); got != nil {
		t.Errorf("one manager needs no words, got %q", got)
	}
	for name, want := range map[string]string{"manager": "local", "lower/manager": "lower", "lower": ""} {
		if got, ok := managerOf(name); ok != (want != "") || ok && got != want {
			t.Errorf("%s: want the manager on %q, got %q, %v", name, want, got, ok)
		}
	}
}
