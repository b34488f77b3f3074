package gitrepo

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
)

// A path that never led anywhere removes nothing, and the GitRepo says so; a
// directory that a commit has removed takes its bundles along.
func TestCheckPaths(t *testing.T) {
	const mistyped = `path "pbb" is not in the repository; did you mean "pb"? nothing is removed until it is there or taken out of spec.paths`
	const file = `path "pc/cm.yaml": it is a file, and paths name directories: write "pc"; nothing is removed until spec.paths is mended`
	const gone = `path "pb" is not in the repository; nothing is removed until it is there or taken out of spec.paths`
	all := []string{"pa", "pb", "pc"}
	reading := func(generation int64, complete bool, paths ...string) *fleet.Reading {
		return &fleet.Reading{Commit: "c1", Generation: generation, Complete: complete, Paths: paths}
	}
	cases := map[string]struct {
		why     string
		dirs    []string // of the repository
		paths   []string
		reading *fleet.Reading
		last    Read
		want    []string // what is done
		verdict string
		led     []string
	}{
		"Mistyped": {
			why: "the spec has changed, and the path never led anywhere", dirs: all, paths: []string{"pa", "pbb", "pc"}, reading: reading(1, true, all...),
			want: []string{"held: " + mistyped, "2 unchanged"}, verdict: mistyped, led: []string{"pa", "pc"},
		},
		"StillMistyped": {
			why: "the next commit removes nothing, either", dirs: []string{"pa", "pb"}, paths: []string{"pa", "pbb", "pc"}, reading: reading(2, false, "pa", "pc"),
			want: []string{"held: " + mistyped, "1 unchanged"}, verdict: mistyped, led: []string{"pa", "pc"},
		},
		"Removed": {
			why: "a commit has removed it", dirs: []string{"pa", "pc"}, paths: all, reading: reading(2, true, all...),
			want: []string{"remove r-pb", "2 unchanged"}, led: all,
		},
		"RemovedLongAgo": {
			why: "it stays known as long as it is in the spec", dirs: []string{"pa", "pc"}, paths: all, reading: reading(1, true, all...),
			want: []string{"remove r-pb", "2 unchanged"}, led: all,
		},
		"StatusBehind": {
			why: "this process has read it before, and the status that it sees is older", dirs: []string{"pa", "pc"}, paths: all, reading: reading(1, true, "pa"),
			last: Read{Known: true, Paths: all}, want: []string{"remove r-pb", "2 unchanged"}, led: all,
		},
		"LastFailed": {
			why: "a reading that failed says nothing", dirs: []string{"pa", "pc"}, paths: all, reading: reading(1, true, "pa"),
			last: Read{Known: true, Err: errors.New("failed"), Paths: all}, want: []string{"held: " + gone, "2 unchanged"}, verdict: gone, led: []string{"pa", "pc"},
		},
		"OlderManager": {
			why:  "an older manager does not say which paths led anywhere: all did, of the spec that it read completely",
			dirs: []string{"pa", "pc"}, paths: all, reading: reading(2, true), want: []string{"remove r-pb", "2 unchanged"}, led: all,
		},
		"OlderManagerOtherSpec": {
			why: "but not of another spec", dirs: []string{"pa", "pc"}, paths: all, reading: reading(1, true),
			want: []string{"held: " + gone, "2 unchanged"}, verdict: gone, led: []string{"pa", "pc"},
		},
		"OlderManagerIncomplete": {
			why: "nor if it left something out", dirs: []string{"pa", "pc"}, paths: all, reading: reading(2, false),
			want: []string{"held: " + gone, "2 unchanged"}, verdict: gone, led: []string{"pa", "pc"},
		},
		"NewGitRepo": {
			why: "the other path is deployed", dirs: []string{"pa", "pb", "pc", "web"}, paths: []string{"pa", "pb", "pc", "web", "wbe"},
			want: []string{
				"put r-web: new",
				`held: path "wbe" is not in the repository; did you mean "web"? nothing is removed until it is there or taken out of spec.paths`, "3 unchanged",
			},
			verdict: `path "wbe" is not in the repository; did you mean "web"? nothing is removed until it is there or taken out of spec.paths`,
			led:     []string{"pa", "pb", "pc", "web"},
		},
		"File": {
			dirs: all, paths: []string{"pa", "pc/cm.yaml"}, reading: reading(1, true, all...),
			want: []string{"held: " + file, "1 unchanged"}, verdict: file, led: []string{"pa"},
		},
		"Pattern": {
			why: "a pattern that matches nothing is a path that leads nowhere", dirs: all, paths: []string{"pa", "q*"}, reading: reading(1, true, all...),
			want:    []string{`held: path "q*" is not in the repository; nothing is removed until it is there or taken out of spec.paths`, "1 unchanged"},
			verdict: `path "q*" is not in the repository; nothing is removed until it is there or taken out of spec.paths`, led: []string{"pa"},
		},
		"TakenOut": {why: "taking a path out removes its bundle", dirs: all, paths: []string{"pa", "pc"}, reading: reading(1, true, all...), want: []string{"remove r-pb", "2 unchanged"}, led: []string{"pa", "pc"}},
	}
	tree := func(dirs []string) fstest.MapFS {
		files := fstest.MapFS{}
		for _, d := range dirs {
			files[d+"/cm.yaml"] = &fstest.MapFile{Data: []byte(manifest), Mode: 0o644}
		}
		return files
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			repo := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "ns", Generation: 2}, Spec: fleet.GitRepoSpec{Paths: c.paths}}
			repo.Status.Reading = c.reading
			present := stored(bundle.Read(tree(all), all, nil, Options(repo, "c1")))
			set, led := CheckPaths(bundle.Read(tree(c.dirs), c.paths, nil, Options(repo, "c2")), repo, c.last)
			if diff := cmp.Diff(c.want, report(PlanWrites(set, present))); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if got := SummarizeFindings(set, nil).Message; got != c.verdict {
				t.Errorf("%s: want %q, got %q", c.why, c.verdict, got)
			}
			if diff := cmp.Diff(c.led, led); diff != "" {
				t.Errorf("paths that led anywhere: -want +got\n%s", diff)
			}
		})
	}
}

func TestAllIgnored(t *testing.T) {
	tree := fstest.MapFS{"a/cm.yaml": {Data: []byte("kind: ConfigMap")}, "b/README.md": {}}
	if got := AllIgnored(bundle.Read(tree, []string{"a", "b"}, nil, bundle.Options{})); got != "" {
		t.Errorf("nothing is ignored, got %q", got)
	}
	tree["a/.fleetignore"] = &fstest.MapFile{Data: []byte("*.md\n*.yaml\n")}
	want := `a/.fleetignore:2: nothing is left to deploy: "*.yaml" ignores all manifests; what was deployed before stays`
	if got := AllIgnored(bundle.Read(tree, []string{"a", "b"}, nil, bundle.Options{})); got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}
