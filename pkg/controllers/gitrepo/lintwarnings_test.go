package gitrepo

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
)

// counted is a tree that counts what is opened.
type counted struct {
	hashedFiles
	opened *int
}

func (c counted) Open(name string) (fs.File, error) {
	*c.opened++
	return c.MapFS.Open(name)
}

// What was found in files that have not changed is taken over without a look,
// and is the same as a look would bring.
func TestDoubts(t *testing.T) {
	const never = "targetCustomizations:\n- {name: all, clusterSelector: {}, helm: {atomic: true}}\n- {name: never, clusterName: c, clusterSelector: {}}\n"
	opened := 0
	tree := counted{hashedFiles{fstest.MapFS{}}, &opened}
	write := func(name, text string) { tree.MapFS[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644} }
	read := func() bundle.Set {
		repo := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "ns"}}
		return bundle.Read(tree, []string{"*"}, nil, gitrepo.Options(repo, "c1"))
	}
	reported := func(set bundle.Set) []string {
		var list []string
		for _, f := range set.AllFindings() {
			list = append(list, f.Short())
		}
		return list
	}
	for _, name := range []string{"a", "b"} {
		write(name+"/fleet.yaml", never)
		write(name+"/cm.yaml", object)
	}
	set := read()
	known := addLintWarnings(tree, set, nil)
	if diff := cmp.Diff([]string{`a/fleet.yaml:3: customization "never" is never used`, `b/fleet.yaml:3: customization "never" is never used`}, reported(set)); diff != "" {
		t.Fatal(diff)
	}
	want := reported(set)

	set = read()
	before := opened
	known = addLintWarnings(tree, set, known)
	if opened != before {
		t.Errorf("%d files were opened although nothing has changed", opened-before)
	}
	if diff := cmp.Diff(want, reported(set)); diff != "" {
		t.Errorf("taken over\n%s", diff)
	}

	write("b/fleet.yaml", "namespace: x\n")
	set = read()
	after := addLintWarnings(tree, set, known)
	if diff := cmp.Diff(want[:1], reported(set)); diff != "" {
		t.Errorf("b is mended\n%s", diff)
	}
	delete(tree.MapFS, "b/fleet.yaml")
	delete(tree.MapFS, "b/cm.yaml")
	set = read()
	if left := addLintWarnings(tree, set, after); len(left) != 1 {
		t.Errorf("what is gone is not remembered, got %d", len(left))
	}
}
