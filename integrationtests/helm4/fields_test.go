package helm4_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// owned is one field, and who owns it.
type owned struct{ object, field, manager, operation string }

// owners lists the fields of an object that were set by anybody but the cluster's
// own controllers, without labels and annotations.
func owners(o *unstructured.Unstructured) []owned {
	var out []owned
	for _, m := range o.GetManagedFields() {
		if m.Subresource != "" || strings.HasPrefix(m.Manager, "kube-") || m.FieldsV1 == nil {
			continue
		}
		var tree map[string]any
		if json.Unmarshal(m.FieldsV1.GetRawBytes(), &tree) != nil {
			continue
		}
		for _, field := range leaves(tree, "") {
			if strings.HasPrefix(field, "metadata.") {
				continue
			}
			out = append(out, owned{o.GetKind() + " " + o.GetName(), field, m.Manager, string(operation(m))})
		}
	}
	slices.SortFunc(out, func(a, b owned) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return out
}

func operation(m metav1.ManagedFieldsEntry) metav1.ManagedFieldsOperationType { return m.Operation }

// leaves are the paths of a set of fields; see structured-merge-diff.
func leaves(tree map[string]any, path string) []string {
	var out []string
	for key, below := range tree {
		kind, name, _ := strings.Cut(key, ":")
		if key == "." {
			continue
		}
		next := path
		switch kind {
		case "k", "v":
			next += "[" + name + "]"
		default:
			if next != "" {
				next += "."
			}
			next += name
		}
		children, _ := below.(map[string]any)
		more := leaves(children, next)
		if len(more) == 0 {
			more = []string{next}
		}
		out = append(out, more...)
	}
	slices.Sort(out)
	return out
}

// table writes who owns what after each step; a step that changes nothing says
// so.
type table struct {
	text strings.Builder
	last string
}

func (t *table) step(name string, list []owned) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, o := range list {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", o.object, o.field, o.manager, o.operation)
	}
	_ = w.Flush() // to a buffer
	fmt.Fprintf(&t.text, "%s\n", name)
	if b.String() == t.last {
		t.text.WriteString("  as before\n")
	} else {
		t.text.WriteString(b.String())
	}
	t.last = b.String()
}

// check compares the table with its golden file.
func (t *table) check(test *testing.T) {
	test.Helper()
	path := filepath.Join("testdata", strings.ReplaceAll(test.Name(), "/", string(filepath.Separator))+".golden")
	if *update {
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(t.text.String()), 0o644)
		}
		if err != nil {
			test.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		test.Fatal(err)
	}
	if diff := cmp.Diff(string(want), t.text.String()); diff != "" {
		test.Errorf("-want +got\n%s", diff)
	}
}
