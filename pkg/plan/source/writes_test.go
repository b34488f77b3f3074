package source

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
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

// stored is what the cluster holds after a reading was written.
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
			why:     "it is made anew when it is gone",
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
			if diff := cmp.Diff(c.want, tell(w)); diff != "" {
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

func tell(w Writes) []string {
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

// What the API server adds is no difference, and what others keep in a Bundle's
// metadata stays there.
func TestOnto(t *testing.T) {
	old := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Name: "b", ResourceVersion: "7", Finalizers: []string{"x/y"}, Labels: map[string]string{"old": "1"}}}
	got := Onto(old, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"new": "1"}}, Spec: fleet.BundleSpec{Paused: true}})
	if got.ResourceVersion != "7" || len(got.Finalizers) != 1 || got.Labels["new"] != "1" || got.Labels["old"] != "" || !got.Spec.Paused {
		t.Errorf("got %+v", got)
	}
	if old.Spec.Paused {
		t.Error("the old one was changed")
	}
}
