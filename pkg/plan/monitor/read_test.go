package monitor

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A line that was written is read again, with all that it says.
func TestLineRoundTrip(t *testing.T) {
	in := small()
	for _, c := range []string{"NotSynced", "NoContent", "OtherValues", "ForeignFinalizer", "Unseen"} {
		wrongFleets[c].change(in)
	}
	want := Diagnose(*in)
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	line, err := NewReader(bytes.NewReader(append(raw, '\n'))).Next()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, line.Snapshot); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// A line of rancher/fleet is read: keys that this version does not know stay in the line.
func TestLineOfTheReference(t *testing.T) {
	raw, err := os.ReadFile("testdata/reference.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(bytes.NewReader(raw))
	line, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(line.Raw, []byte("keyOfALaterVersion")) {
		t.Error("the line is not kept")
	}
	var got []string
	for _, f := range line.Faults() {
		for _, o := range f.Objects {
			got = append(got, f.Key+" "+o.Namespace+"/"+o.Name)
		}
	}
	want := []string{
		"stuckBundleDeployments cluster-fleet-default-c1/web-app", "clustersWithAgentIssues fleet-default/c1", "largeBundles fleet-default/web-app",
		"resourcesWithMultipleFinalizers fleet-default/Bundle/web-app", "orphanedSecrets fleet-default/gone", "contentIssues cluster-fleet-default-c1/web-app",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if g := line.GitRepos[0]; g.PollingInterval != 15*time.Second || !g.LastPollingTime.IsZero() || !g.Ready {
		t.Errorf("%+v", g)
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("want the end, got %v", err)
	}
}

// What is no snapshot is an error that names the line.
func TestReaderRefuses(t *testing.T) {
	const good = `{"timestamp":"2026-08-24T14:10:44Z"}` + "\n"
	cases := map[string]struct{ text, want string }{
		"text":      {good + "\nhello\n", "line 3: not a snapshot"},
		"array":     {"[]", "line 1: not a snapshot"},
		"other":     {`{"kind":"List"}`, "line 1: not a snapshot of fleet monitor: it has no timestamp"},
		"long":      {good + strings.Repeat("x", MaxLineBytes+1), "line 2 is longer than 10 MiB"},
		"values":    {`{"gitrepos":[` + strings.Repeat("{},", maxValues) + `{}]}`, "line 1: 1000002 values"},
		"cut":       {good[:20], "line 1: not a snapshot"},
		"type":      {`{"timestamp":"x","gitrepos":7}`, "line 1: not a snapshot"},
		"deep":      {strings.Repeat("[", 100000), "line 1: not a snapshot"},
		"wrongTime": {`{"timestamp":"x","gitrepos":[{"lastPollingTime":"never"}]}`, "line 1: not a snapshot"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := NewReader(strings.NewReader(c.text))
			var err error
			for err == nil {
				_, err = r.Next()
			}
			if !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("want %q, got %q", c.want, err)
			}
		})
	}
}

// FuzzReader: no input makes the reader panic, and what it reads can be shown and compared.
func FuzzReader(f *testing.F) {
	reference, err := os.ReadFile("testdata/reference.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(reference)
	own, err := json.Marshal(Diagnose(*small()))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own)
	f.Add([]byte("{\"timestamp\":\"x\",\"diagnostics\":null}\n\n{\"timestamp\":\"y\",\"contentIssues\":[{}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := NewReader(bytes.NewReader(data))
		before := &Line{}
		for {
			line, err := r.Next()
			if err != nil {
				return
			}
			line.Faults()
			Compare(&before.Snapshot, &line.Snapshot)
			Compare(&line.Snapshot, &before.Snapshot)
			before = line
		}
	})
}

// A comparison names what is new, gone and different.
func TestCompare(t *testing.T) {
	before, in := Diagnose(*small()), small()
	in.GitRepos[0].Status.Commit = oldCommit
	in.Bundles = append(in.Bundles, BundleObject{Bundle: newBundleObject("by-hand", "")})
	in.Clusters[0].LastSeen = now.Add(-48 * time.Hour)
	after := Diagnose(*in)
	want := []Change{
		{"+", "Clusters that are not Ready or not seen", "shops/c1 its agent was seen 48h0m0s ago"},
		{"+", "GitRepos whose newest commit is not read", "shops/web polling has found bbbbbbb, and aaaaaaa is read"},
		{"+", "Bundles without BundleDeployments", "shops/by-hand it has 1 clusters and no BundleDeployment"},
		{"~", "gitrepo shops/web", "commit bbbbbbb -> aaaaaaa"},
		{"+", "bundle shops/by-hand", ""},
	}
	if diff := cmp.Diff(want, Compare(&before, &after)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if back := Compare(&after, &before); len(back) != len(want) || back[0].Sign != "-" {
		t.Errorf("%+v", back)
	}
	if same := Compare(&before, &before); len(same) > 0 {
		t.Errorf("%+v", same)
	}
}

// Objects of a list that could not be read are not gone.
func TestCompareWithoutRights(t *testing.T) {
	before, in := Diagnose(*small()), small()
	in.Deployments, in.Secrets, in.Unread = nil, nil, []Unread{{Resource: Deployments, Cause: CauseRight}}
	delete(in.Reach, Deployments)
	delete(in.Reach, Secrets)
	after := Diagnose(*in)
	if got := Compare(&before, &after); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

// A snapshot of one workspace has the Contents that the workspace uses.
func TestNarrowedContents(t *testing.T) {
	in := small()
	part := ContentObject{ObjectMeta: meta("", "s-web-0")}
	part.Labels[fleet.LabelContentOf] = "s-web"
	in.Contents = append(in.Contents, part, ContentObject{ObjectMeta: meta("", "s-of-others")})
	in.Narrowed, in.Reach[Bundles] = true, Reach{Namespaces: []string{space}}
	s := Diagnose(*in)
	if len(s.Contents) != 2 || s.Diagnostics.ContentsWithZeroReferenceCount != 0 {
		t.Errorf("%+v", s.Contents)
	}
}
