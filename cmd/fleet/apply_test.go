package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/apply"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/sources"
)

// applyDir runs the command as a person would, in dir.
func applyDir(t *testing.T, dir string, args ...string) (out, notes string, err error) {
	t.Helper()
	return alone(t, dir, append([]string{"apply"}, args...)...)
}

// alone runs a command in a directory, where no cluster is to be had.
func alone(t *testing.T, dir string, args ...string) (out, notes string, err error) {
	t.Helper()
	t.Chdir(dir)
	t.Setenv("COMMIT", "")
	t.Setenv("NAMESPACE", "")
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	var stdout, stderr bytes.Buffer
	root := newRootCommand(printer.Stdio{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// A directory that stands where NAME is wanted is not taken for one, with all of the
// working directory as PATH.
func TestApplyDirectoryAsName(t *testing.T) {
	t.Run("Alone", func(t *testing.T) {
		_, _, err := applyDir(t, "../../examples", "-n", "fleet-default", "web")
		if err == nil || !strings.Contains(err.Error(), "fleet apply NAME web writes that directory") {
			t.Errorf("want how to say which is meant, got %v", err)
		}
	})
	t.Run("WithPath", func(t *testing.T) {
		out, _, err := applyDir(t, "../../examples", "-o", "json", "-n", "fleet-default", "web", ".")
		if err != nil || !strings.Contains(out, `"web-metrics"`) {
			t.Errorf("want the working directory, which is named, got %v", err)
		}
	})
}

// The examples become three bundles, without a word about them.
func TestApplyExamples(t *testing.T) {
	out, notes, err := applyDir(t, "../../examples", "-o", "json", "-n", "fleet-default", "--commit", "abc", "examples")
	if err != nil || notes != "" {
		t.Fatalf("want no words, got %v\n%s", err, notes)
	}
	var list struct {
		Items []struct {
			Metadata struct {
				Name, Namespace string
				Labels          map[string]string
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range list.Items {
		got = append(got, i.Metadata.Namespace+"/"+i.Metadata.Name+" "+i.Metadata.Labels["fleet.cattle.io/commit"])
	}
	want := []string{"fleet-default/examples-metrics abc", "fleet-default/examples-settings abc", "fleet-default/examples-web abc"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestApplyFlags(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("app/cm.yaml", "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n")
	put("app/prod.yaml", "defaultNamespace: prod\n")
	put("targets.yaml", "targets:\n- clusterName: c1\ntargetRestrictions:\n- clusterName: c1\n")
	put("broken/fleet.yaml", "helm:\n  values: 5\n")
	put("typo/fleet.yaml", "namespac: x\n")
	put("typo/cm.yaml", "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n")
	put("nothing/README.md", "x")
	cases := map[string]struct {
		why         string
		args        []string
		code        int
		out, notes  []string // texts that must be there
		file, empty string   // a file that must hold out; a path that must not exist
		err         string   // what is answered
	}{
		"SlashBeforeThePath": {
			why:  "a GitRepo's paths may begin with one, and mean the same",
			args: []string{"-o", "-", "repo", "/app"}, out: []string{"name: repo-app\n"},
		},
		"Flags": {
			args: []string{
				"-o", "-", "-l", "team=a,ring=1", "--target-namespace", "forced", "-a", "sa", "--paused", "--sync-generation", "7", "--keep-resources",
				"--delete-namespace", "--correct-drift", "--correct-drift-force", "--targets-file", "targets.yaml", "-c", "repo", "app",
			},
			out: []string{
				"name: repo-app\n", "namespace: fleet-local\n", "team: a\n", `ring: "1"`, "namespace: forced\n", "serviceAccount: sa\n", "paused: true\n",
				"forceSyncGeneration: 7\n", "keepResources: true\n", "deleteNamespace: true\n", "enabled: true\n    force: true\n", "encoding: base64+gz\n",
				"targetRestrictions:\n  - clusterName: c1\n",
			},
		},
		"Absolute":   {args: []string{"-o", "yaml", "repo", filepath.Join(dir, "app")}, out: []string{"name: repo-app\n"}},
		"DrivenScan": {args: []string{"-o", "-", "--driven-scan", "repo", "app:prod.yaml"}, out: []string{"name: repo-app-prod\n", "defaultNamespace: prod\n"}},
		"File":       {args: []string{"-o", "out.json", "repo", "app"}, file: "out.json", out: []string{`"name": "repo-app"`}},
		"Warning": {
			why: "a warning does not stop it", args: []string{"-o", "-", "repo", "typo"}, out: []string{"name: repo-typo\n"},
			notes: []string{`typo/fleet.yaml:1:1: warning: unknown key "namespac" is ignored [unknown-key]`, `    did you mean "namespace"?`},
		},
		"Errors": {
			why: "half of a repository would remove the other half", args: []string{"-o", "out.yaml", "repo", "app", "broken"}, code: 4, empty: "out.yaml",
			notes: []string{"broken/fleet.yaml:2:11: error: helm.values must be a mapping, not a single value [type]"},
		},
		"Misspelt": {
			why: "the bundle of the directory that is meant would be removed", args: []string{"-o", "out.yaml", "repo", "app", "brokn"}, code: 4, empty: "out.yaml",
			notes: []string{"brokn:1:1: error: the repository has no such directory [file]\n    did you mean \"broken\"?\n"},
			err:   "the input has errors: 1 error, nothing is printed",
		},
		"MisspeltLive": {
			why: "no server is asked", args: []string{"repo", "app", "brokn"}, code: 4, notes: []string{"brokn:1:1: error: the repository has no such directory [file]"},
			err: "the input has errors: 1 error, nothing is written or removed",
		},
		"PatternOfNothing": {
			why: "the bundles that it matched before would be removed", args: []string{"repo", "app", "x*"}, code: 4,
			notes: []string{"x*:1:1: error: the repository has no such directory [file]"},
		},
		"PathToFile": {
			args: []string{"repo", "app", "app/cm.yaml"}, code: 4,
			notes: []string{`app/cm.yaml:1:1: error: it is a file, and paths name directories: write "app" [file]`},
		},
		"Nothing":  {args: []string{"-o", "-", "repo", "nothing"}, code: 4},
		"Outside":  {args: []string{"-o", "-", "repo", "../x"}, code: 4, notes: []string{"../x:1:1: error: the path leads out of the repository [outside]"}},
		"NoOutput": {why: "it does not pretend to write to a cluster", args: []string{"repo", "app"}, code: 1},
		"BadNamespace": {
			why: "agents would be the first to refuse it", args: []string{"-o", "out.yaml", "--target-namespace", "Shop_1", "repo", "app"}, code: 1, empty: "out.yaml",
			err: `--target-namespace "Shop_1" is not possible: want at most 63 lower case letters, digits and -, a letter or digit first and last; did you mean "shop-1"?`,
		},
		"NoName": {args: []string{"-o", "-"}, code: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			out, notes, err := applyDir(t, dir, c.args...)
			if got := cli.ExitCode(err, false); got != c.code {
				t.Fatalf("%s: want exit code %d, got %d: %v\n%s", c.why, c.code, got, err, notes)
			}
			if c.err != "" && err.Error() != c.err {
				t.Errorf("%s: want %q, got %q", c.why, c.err, err)
			}
			if c.code == 4 && !errors.Is(err, cli.ErrInput) {
				t.Errorf("want the input blamed, got %v", err)
			}
			if c.file != "" {
				raw, err := os.ReadFile(filepath.Join(dir, c.file))
				if err != nil {
					t.Fatal(err)
				}
				out = string(raw)
			}
			if c.empty != "" {
				if _, err := os.Stat(filepath.Join(dir, c.empty)); err == nil {
					t.Errorf("%s: %s was written", c.why, c.empty)
				}
			}
			for _, want := range c.out {
				if !strings.Contains(out, want) {
					t.Errorf("%s: want %q in\n%s", c.why, want, out)
				}
			}
			for _, want := range c.notes {
				if !strings.Contains(notes, want) {
					t.Errorf("%s: want %q in\n%s", c.why, want, notes)
				}
			}
		})
	}
}

// A PATH that exists, but not below the working directory, is not looked for
// below it without a word about that.
func TestApplyElsewhere(t *testing.T) {
	dir := t.TempDir()
	_, notes, err := applyDir(t, t.TempDir(), "-o", "-", "repo", dir)
	if cli.ExitCode(err, false) != 4 {
		t.Fatalf("want exit code 4, got %v\n%s", err, notes)
	}
	for _, want := range []string{dir + " is not below the working directory", "run the command in " + filepath.Dir(dir) + " with PATH " + filepath.Base(dir)} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in %v", want, err)
		}
	}
	_, notes, _ = applyDir(t, t.TempDir(), "-o", "-", "repo", dir+"-none")
	if !strings.Contains(notes, "no such directory") {
		t.Errorf("a PATH that is nowhere: got %q", notes)
	}
}

func TestApplyCommitOfCheckout(t *testing.T) {
	out, _, err := applyDir(t, "../../examples", "-o", "-", "examples", "settings")
	if err != nil {
		t.Fatal(err)
	}
	if _, noCheckout := os.Stat("../.git"); noCheckout == nil && !strings.Contains(out, "fleet.cattle.io/commit: ") {
		t.Errorf("want HEAD of this checkout as a label:\n%s", out)
	}
}

// The bundles of a GitRepo are not the user's to write: directories under its name are
// refused before the first write. Another name goes on, and so does who may not look.
func TestApplyUnderTheNameOfAGitRepo(t *testing.T) {
	st := stage{fake: newFake(t, "testdata/fleets/examples.yaml")}
	out := st.run(t, strings.Fields("apply -n fleet-default --commit c1 examples testdata/trees/settings"))
	if !strings.Contains(out, "refused: GitRepo fleet-default/examples exists") || !strings.HasSuffix(out, "\n5\n") || len(st.fake.writes) > 0 {
		t.Errorf("want a refusal before anything is written, got %v and\n%s", st.fake.writes, out)
	}
	for _, c := range []struct {
		why, name, file, note string
		forbidden             bool
	}{
		{why: "no GitRepo has that name", name: "byhand"},
		{why: "a Bundle from a file removes nothing", name: "examples", file: "-"},
		{why: "who may not look goes on", name: "examples", forbidden: true, note: "whether one named examples manages these bundles is not known"},
	} {
		var notes strings.Builder
		f := newFake(t, "testdata/fleets/examples.yaml")
		f.refuse["gitrepos fleet-default"] = c.forbidden
		o := apply.Options{Name: c.name, File: c.file}
		o.Bundle.Namespace = "fleet-default"
		err := o.Unowned(t.Context(), &client.Session{Access: client.Access{API: f}, Std: printer.Stdio{Err: &notes}})
		if err != nil || !strings.Contains(notes.String(), c.note) || c.note == "" && notes.Len() > 0 {
			t.Errorf("%s: got %v, %q", c.why, err, notes.String())
		}
	}
}

// The file of --bundle-file is a Bundle wherever in it the Bundle stands; else it is taken
// for options, and the working directory is read.
func TestIsBundle(t *testing.T) {
	const (
		one    = "apiVersion: fleet.cattle.io/v1alpha1\nkind: Bundle\nmetadata: {name: a}\n"
		secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n"
	)
	cases := map[string]struct {
		text string
		want bool
	}{
		"Alone":         {one, true},
		"JSON":          {`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"Bundle"}`, true},
		"BundleList":    {"apiVersion: fleet.cattle.io/v1alpha1\nkind: BundleList\nitems: []\n", true},
		"List":          {"apiVersion: v1\nkind: List\nitems:\n- apiVersion: fleet.cattle.io/v1alpha1\n  kind: Bundle\n", true},
		"AfterAComment": {"# by hand\n---\n" + one, true},
		"AfterNothing":  {"\n---\n---\n" + one, true},
		"AfterASecret":  {secret + "---\n" + one, true},
		"BeforeNoYAML":  {one + "---\na: [\n", true},
		"Options":       {"namespace: a\nhelm: {chart: web}\n", false},
		"Other":         {secret, false},
		"OtherGroup":    {"apiVersion: v1\nkind: Bundle\n", false},
		"NoYAML":        {"a: [\n", false},
		"Empty":         {"", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := sources.IsBundle([]byte(c.text)); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
