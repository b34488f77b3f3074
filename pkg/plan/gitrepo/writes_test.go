package gitrepo

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

func found(path string, line int, message string) []finding.Finding {
	return []finding.Finding{{Path: path, Line: line, Severity: finding.Error, Rule: finding.RuleYAML, Message: message}}
}

const manifest = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n"

// read makes the bundles of a tree at a commit.
func read(commit string, files map[string]string) bundle.Set {
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	repo := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "ns"}}
	return bundle.Read(tree, []string{"*"}, nil, Options(repo, commit))
}

// stored returns the objects that exist after a reading was written.
func stored(set bundle.Set) Present {
	p := Present{Secrets: map[string]map[string][]byte{}}
	for _, w := range PlanWrites(set, p).Put {
		p.Own = append(p.Own, w.New)
		if w.Values != nil {
			p.Secrets[w.New.Name] = w.Values
		}
	}
	return p
}

func TestPlanWrites(t *testing.T) {
	base := map[string]string{"a/cm.yaml": manifest, "b/cm.yaml": manifest, "b/fleet.yaml": "helm: {values: {x: 1}}\n", "c/cm.yaml": manifest}
	with := func(changes map[string]string) map[string]string {
		all := map[string]string{}
		for _, m := range []map[string]string{base, changes} {
			for k, v := range m {
				all[k] = v
				if v == "" {
					delete(all, k)
				}
			}
		}
		return all
	}
	cases := map[string]struct {
		why     string
		files   map[string]string
		present func(*Present)
		want    []string
	}{
		"NothingNew": {why: "another commit alone writes nothing", want: []string{"3 unchanged"}},
		"OneChanged": {files: map[string]string{"a/cm.yaml": manifest + "data: {x: y}\n"}, want: []string{"put r-a: changed", "2 unchanged"}},
		"OneNew":     {files: map[string]string{"d/cm.yaml": manifest}, want: []string{"put r-d: new", "3 unchanged"}},
		"OneGone":    {files: map[string]string{"c/cm.yaml": ""}, want: []string{"remove r-c", "2 unchanged"}},
		"Emptied": {
			why: "its directory is there, so no commit removed it; others are not held up", files: map[string]string{"a/cm.yaml": "", "a/README.md": "x", "c/cm.yaml": ""},
			want: []string{"remove r-c", `a: the directory has become empty; bundle "r-a" stays as it was`, "1 unchanged"},
		},
		"AlwaysEmpty": {why: "what never was a bundle is none", files: map[string]string{"d/README.md": "x"}, want: []string{"3 unchanged"}},
		"Renamed": {
			why: "both, and the new one first", files: map[string]string{"c/cm.yaml": "", "d/cm.yaml": manifest},
			want: []string{"put r-d: new", "remove r-c", "2 unchanged"},
		},
		"ValuesChanged": {files: map[string]string{"b/fleet.yaml": "helm: {values: {x: 2}}\n"}, want: []string{"put r-b: changed, with values", "2 unchanged"}},
		"ValuesGone":    {files: map[string]string{"b/fleet.yaml": "helm: {}\n"}, want: []string{"put r-b: changed", "2 unchanged"}},
		"SecretLost":    {present: func(p *Present) { p.Secrets = nil }, want: []string{"put r-b: its values were gone, with values", "2 unchanged"}},
		"Broken": {
			why: "it keeps its last version, and others go", files: map[string]string{"a/cm.yaml": "a:\n\tb", "c/cm.yaml": ""},
			want: []string{"remove r-c", "1 unchanged"},
		},
		"BrokenAndNew": {
			why: "it may be what took the place of r-c", files: map[string]string{"d/cm.yaml": "a:\n\tb", "c/cm.yaml": ""},
			want: []string{`held: d: bundle "r-d" could not be made`, "2 unchanged"},
		},
		"NameOfAnother": {
			why: "b takes the name of a: which of them has left its bundle is not known, so none is removed", files: map[string]string{"b/fleet.yaml": "name: r-a\n"},
			want: []string{`held: a: bundle "r-a" is also that of another directory`, "1 unchanged"},
		},
		"MovedToNameOfAnother": {
			why: "nor is the one whose directory is gone", files: map[string]string{"b/cm.yaml": "", "b/fleet.yaml": "", "d/cm.yaml": manifest, "d/fleet.yaml": "name: r-a\n"},
			want: []string{`held: a: bundle "r-a" is also that of another directory`, "1 unchanged"},
		},
		"NameUnknown": {
			why: "it may be any of those that are there", files: map[string]string{"d/fleet.yaml": "a:\n\tb", "d/cm.yaml": manifest, "c/cm.yaml": ""},
			want: []string{"held: d: nobody can say which bundle it is", "2 unchanged"},
		},
		"Taken": {
			files:   map[string]string{"d/cm.yaml": manifest, "c/cm.yaml": ""},
			present: func(p *Present) { p.Others = map[string]string{"r-d": `GitRepo "other"`} },
			want: []string{
				`held: d: bundle "r-d" exists and belongs to GitRepo "other"; it is not overwritten`,
				`d: bundle "r-d" exists and belongs to GitRepo "other"; it is not overwritten`, "2 unchanged",
			},
		},
		"StillGoing": {
			why:     "it is created again when it is gone",
			present: func(p *Present) { p.Own[0].DeletionTimestamp = &metav1.Time{Time: noon} },
			want: []string{
				`held: bundle "r-a" is being removed; it is made anew afterwards`, `wait: bundle "r-a" is being removed; it is made anew afterwards`, "2 unchanged",
			},
		},
		"GoingAnyway": {
			why: "what is being removed is not removed again", files: map[string]string{"a/cm.yaml": ""},
			present: func(p *Present) { p.Own[0].DeletionTimestamp = &metav1.Time{Time: noon} }, want: []string{"2 unchanged"},
		},
		"EditedByHand": {present: func(p *Present) { p.Own[2].Spec.Paused = true }, want: []string{"put r-c: changed", "2 unchanged"}},
		"LabelAdded":   {present: func(p *Present) { p.Own[2].Labels["x"] = "y" }, want: []string{"put r-c: changed", "2 unchanged"}},
		"Approval": {
			why: "what people say about removals is theirs", present: func(p *Present) {
				p.Own[2].Annotations = map[string]string{fleet.AnnotationApproveDeletion: "x", fleet.AnnotationDeletionHeld: "x y", fleet.AnnotationDeletionBudget: "1"}
			},
			want: []string{"3 unchanged"},
		},
		"WantedAgain": {
			why: "a mark is taken off", present: func(p *Present) { p.Own[2].Annotations = map[string]string{fleet.AnnotationPrune: "1-x"} },
			want: []string{"put r-c: changed", "2 unchanged"},
		},
		"FinalizerOfOthers": {
			why: "what is not ours to say is no difference", present: func(p *Present) {
				p.Own[2].Finalizers = append(p.Own[2].Finalizers, "x/y")
				p.Own[2].ResourceVersion = "7"
			},
			want: []string{"3 unchanged"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := stored(read("c1", base))
			if c.present != nil {
				c.present(&p)
			}
			w := PlanWrites(read("c2", with(c.files)), p)
			if diff := cmp.Diff(c.want, report(w)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			for _, put := range w.Put {
				if put.New.Spec.Helm != nil && put.New.Spec.Helm.Values != nil {
					t.Errorf("values of %s stand in the Bundle", put.New.Name)
				}
				if put.Reason != "its values were gone" && put.New.Labels[fleet.LabelCommit] != "c2" {
					t.Errorf("%s: want the commit that changed it, got %q", put.New.Name, put.New.Labels[fleet.LabelCommit])
				}
			}
		})
	}
}

func report(w Writes) []string {
	var list []string
	for _, p := range w.Put {
		text := fmt.Sprintf("put %s: %s", p.New.Name, p.Reason)
		if p.Secret {
			text += ", with values"
		}
		list = append(list, text)
	}
	for _, b := range w.Remove {
		list = append(list, "remove "+b.Name)
	}
	if w.Held != "" {
		list = append(list, "held: "+w.Held)
	}
	for _, f := range w.Findings {
		list = append(list, f.Short())
	}
	if w.Err != nil {
		list = append(list, "wait: "+w.Err.Error())
	}
	return append(list, fmt.Sprintf("%d unchanged", w.Unchanged))
}

// Where a registry's Secret is, or where they are large, resources are not in
// the Bundle; switching back and forth writes it.
func TestPlace(t *testing.T) {
	set := read("c1", map[string]string{"a/cm.yaml": manifest})
	data := map[string][]byte{"reference": []byte("host/x")}
	inline := PlanWrites(set, Present{}).Put[0]
	apart := PlanWrites(set, Present{Registry: data}).Put[0]
	if inline.In != Inline || len(inline.New.Spec.Resources) != 1 || inline.New.Spec.ContentsID != "" {
		t.Errorf("want it in the Bundle, got %+v", inline)
	}
	id := content.ID(content.Manifest{Resources: inline.New.Spec.Resources})
	if apart.In != Registry || apart.New.Spec.Resources != nil || apart.New.Spec.ContentsID != id || !apart.Access || len(apart.Content.Resources) != 1 {
		t.Errorf("want it in the registry, got %+v", apart)
	}
	cases := map[string]struct {
		why     string
		present Present
		want    []string
	}{
		"There":      {present: Present{Own: []*fleet.Bundle{apart.New}, Registry: data, Access: map[string]map[string][]byte{id: data}}, want: []string{"1 unchanged"}},
		"SecretGone": {why: "agents cannot read it without", present: Present{Own: []*fleet.Bundle{apart.New}, Registry: data}, want: []string{"put r-a: the registry's Secret has changed", "0 unchanged"}},
		"Back":       {present: Present{Own: []*fleet.Bundle{apart.New}}, want: []string{"put r-a: changed", "0 unchanged"}},
		"There2":     {present: Present{Own: []*fleet.Bundle{inline.New}}, want: []string{"1 unchanged"}},
		"Forth":      {present: Present{Own: []*fleet.Bundle{inline.New}, Registry: data}, want: []string{"put r-a: changed", "0 unchanged"}},
		"Adopted":    {why: "what has no owner is written, not refused", present: Present{Adopted: []*fleet.Bundle{apart.New}}, want: []string{"put r-a: changed", "0 unchanged"}},
	}
	for name, c := range cases {
		if diff := cmp.Diff(c.want, report(PlanWrites(set, c.present))); diff != "" {
			t.Errorf("%s: %s\n-want +got\n%s", name, c.why, diff)
		}
	}
	adopted := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Name: "r-other"}}
	if w := PlanWrites(set, Present{Adopted: []*fleet.Bundle{adopted}}); len(w.Remove) != 0 {
		t.Error("what has no owner is never removed")
	}
}

func TestLarge(t *testing.T) {
	text := func(n int) []fleet.BundleResource {
		return []fleet.BundleResource{{Name: "a", Content: strings.Repeat("x", n)}}
	}
	for n, want := range map[int]ResourcePlace{100: Inline, InlineBytes - 2000: Inline, InlineBytes: Apart} {
		set := bundle.Set{Results: []bundle.Result{{Name: "a", Bundle: &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: fleet.BundleSpec{Resources: text(n)}}}}}
		w := PlanWrites(set, Present{}).Put[0]
		if w.In != want || (w.New.Annotations[fleet.AnnotationContent] != "") != (want == Apart) {
			t.Errorf("%d bytes: want %q, got %q, %v", n, want, w.In, w.New.Annotations)
		}
		if raw, err := json.Marshal(w.New); err != nil || len(raw) > InlineBytes {
			t.Errorf("%d bytes: the Bundle has %d, %v", n, len(raw), err)
		}
	}
}

func TestPlanScans(t *testing.T) {
	scan := func(name, image, commit string) *fleet.ImageScan {
		return &fleet.ImageScan{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{fleet.LabelCommit: commit}}, Spec: fleet.ImageScanSpec{Image: image}}
	}
	set := bundle.Set{Results: []bundle.Result{{Scans: []*fleet.ImageScan{scan("a", "x", "2"), scan("b", "x", "2"), scan("c", "y", "2")}}}}
	var got []string
	for _, w := range PlanScans(set, []*fleet.ImageScan{scan("b", "x", "1"), scan("c", "x", "1"), scan("d", "x", "1")}) {
		got = append(got, fmt.Sprintf("%s new=%v", w.New.Name, w.Old == nil))
	}
	if diff := cmp.Diff([]string{"a new=true", "c new=false"}, got); diff != "" {
		t.Errorf("a commit alone writes nothing, and none is removed\n-want +got\n%s", diff)
	}
}

func TestLeftoverScans(t *testing.T) {
	scan := func(name, label, repo string) *fleet.ImageScan {
		return &fleet.ImageScan{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{fleet.LabelRepoName: label}}, Spec: fleet.ImageScanSpec{GitRepoName: repo}}
	}
	going := scan("going", "r", "r")
	going.DeletionTimestamp = &metav1.Time{}
	present := []*fleet.ImageScan{scan("made", "r", "r"), scan("left", "r", "r"), scan("byhand", "", "r"), scan("other", "s", "s"), going}
	set := bundle.Set{Results: []bundle.Result{{Scans: []*fleet.ImageScan{scan("made", "r", "r")}}}}
	names := func(list []*fleet.ImageScan) (out []string) {
		for _, s := range list {
			out = append(out, s.Name)
		}
		return out
	}
	if diff := cmp.Diff([]string{"left"}, names(LeftoverScans(set, present, "r"))); diff != "" {
		t.Errorf("only what the GitRepo has made and does not make any more\n-want +got\n%s", diff)
	}
	set.Results = append(set.Results, bundle.Result{Findings: []finding.Finding{{Severity: finding.Error}}})
	if left := LeftoverScans(set, present, "r"); len(left) > 0 {
		t.Errorf("a broken bundle may have yielded %v", names(left))
	}
	if diff := cmp.Diff([]string{"made", "left"}, names(LeftoverScans(bundle.Set{}, present, "r"))); diff != "" {
		t.Errorf("a deleted GitRepo yields none\n-want +got\n%s", diff)
	}
}

// What the API server adds is no difference, and what others keep in a Bundle's
// metadata stays there.
func TestOnto(t *testing.T) {
	old := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Name: "b", ResourceVersion: "7", Finalizers: []string{"x/y"}, Labels: map[string]string{"old": "1"},
		Annotations: map[string]string{fleet.AnnotationApproveDeletion: "x", fleet.AnnotationPrune: "1-x"}}}
	got := UpdateBundle(old, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"new": "1"}}, Spec: fleet.BundleSpec{Paused: true}})
	if got.ResourceVersion != "7" || len(got.Finalizers) != 1 || got.Labels["new"] != "1" || got.Labels["old"] != "" || !got.Spec.Paused {
		t.Errorf("got %+v", got)
	}
	if old.Spec.Paused {
		t.Error("the old one was changed")
	}
	if diff := cmp.Diff(map[string]string{fleet.AnnotationApproveDeletion: "x"}, got.Annotations); diff != "" {
		t.Errorf("an approval stays, a mark does not: %s", diff)
	}
	forged := UpdateBundle(&fleet.Bundle{}, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{fleet.AnnotationApproveDeletion: "x"}}})
	if len(forged.Annotations) != 0 {
		t.Errorf("a repository approves nothing: %v", forged.Annotations)
	}
}

// A Bundle that differs only because its GitRepo does keeps the commit that changed
// it; one that is made of other files, or of which that is not known, does not.
func TestPlanWritesKeepsCommits(t *testing.T) {
	files := map[string]string{"a/cm.yaml": manifest, "b/cm.yaml": manifest}
	before := read("c1", files)
	files["b/cm.yaml"] = manifest + "data: {x: y}\n"
	after := read("c2", files)
	for i := range after.Results {
		after.Results[i].Bundle.Spec.Paused = true // as the GitRepo is since
	}
	for name, c := range map[string]struct {
		unmoved func(string) bool
		want    map[string]string
	}{
		"Known":   {func(name string) bool { return name == "r-a" }, map[string]string{"r-a": "c1", "r-b": "c2"}},
		"Unknown": {nil, map[string]string{"r-a": "c2", "r-b": "c2"}},
	} {
		p := stored(before)
		p.Unmoved = c.unmoved
		plan := PlanWrites(after, p)
		if diff := cmp.Diff(c.want, plan.Commits(p.Own, nil)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
		if got := plan.Commits(p.Own, map[string]bool{"r-a": true, "r-b": true}); got["r-b"] != "c1" {
			t.Errorf("%s: what was refused stays as it was, got %v", name, got)
		}
	}
}
