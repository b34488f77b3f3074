package drift

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/drift"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// What is said of live objects of many kinds is what Rancher and kubectl's wait
// say of them. A line of the table that changes is a state that users see change.
func TestHealth(t *testing.T) {
	var table strings.Builder
	for _, live := range objectsIn(t, "objects.yaml") {
		s := judgement{}.judgeObject(t.Context(), live, live)
		state, text := "ready", ""
		if n := s.object.NonReady; n != nil {
			state, text = n.Summary.State, strings.Join(n.Summary.Message, "; ")
			if n.Summary.Error {
				state += ", error"
			}
		}
		line := fmt.Sprintf("%-58s %-48s %-24s %s", live.GetKind()+"."+live.GroupVersionKind().Group, live.GetAnnotations()["case"], state, text)
		fmt.Fprintln(&table, strings.TrimRight(line, " "))
	}
	golden := filepath.Join("testdata", t.Name(), "table.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(table.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(table.String(), "\n")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// A condition that is ignored is not looked at, by either set of rules.
func TestHealthIgnoresConditions(t *testing.T) {
	for _, live := range objectsIn(t, "objects.yaml") {
		ready := map[string]bool{"stalled": true, "not Ready": true, "gets no metrics": true, "its job was made": true, "gave up": false}
		want, known := ready[live.GetAnnotations()["case"]]
		if !known || live.GetKind() == "Deployment" && want {
			continue
		}
		j := judgement{expected: drift.Expected{}, ignored: []map[string]string{
			{"type": "Stalled", "status": "True"}, {"type": "Ready", "status": "False", "message": "database away"},
			{"type": "ScalingActive"}, {"type": "Failed"},
		}}
		if s := j.judgeObject(t.Context(), live, live); (s.object.NonReady == nil) != want {
			t.Errorf("%s %s: ready should be %v: %+v", live.GetKind(), live.GetAnnotations()["case"], want, s.object.NonReady)
		}
	}
}

// objectsIn reads the objects of a file of this test.
func objectsIn(t *testing.T, name string) []*unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "TestHealth", name))
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err == nil {
			doc, err = yaml.YAMLToJSON(doc)
		}
		o := &unstructured.Unstructured{}
		if err == nil {
			err = o.UnmarshalJSON(doc)
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
}
