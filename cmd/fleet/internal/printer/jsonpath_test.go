package printer

import (
	"errors"
	"slices"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// ownDocument is a document of this program.
type ownDocument struct {
	Clusters view.Count `json:"clusters"`
}

// A jsonpath with a field that cannot be there says so; one that is only unset is quiet.
func TestMisspelt(t *testing.T) {
	bundle := func(more ...any) map[string]any {
		b := map[string]any{
			"apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Bundle",
			"metadata": map[string]any{"name": "web", "labels": map[string]any{"env": "prod"}},
		}
		for i := 0; i < len(more); i += 2 {
			b[more[i].(string)] = more[i+1]
		}
		return b
	}
	list := func(items ...any) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}, "items": items}
	}
	ready := bundle("status", map[string]any{"display": map[string]any{"state": "Ready"}})
	cases := map[string]struct {
		why   string
		path  string
		doc   any
		want  []string // errors
		doubt []string
		found bool
	}{
		"Found":     {why: "nothing to say", path: "{.status.display.state}", doc: ready, found: true},
		"Unset":     {why: "the field exists, this object does not have it", path: "{.status.summary.ready}", doc: bundle()},
		"UnsetDeep": {why: "the fields of what is unset are known", path: "{.spec.targets[*].clusterSelector.matchLabels.env}", doc: bundle()},
		"Near": {
			why: "the nearest field", path: "{.status.summry.ready}", doc: bundle(),
			want: []string{`no field "summry" in .status; did you mean "summary"?`},
		},
		"Case": {
			why: "letters' case counts", path: "{.metadata.creationtimestamp}", doc: bundle(),
			want: []string{`no field "creationtimestamp" in .metadata; did you mean "creationTimestamp"?`},
		},
		"Nothing": {
			why: "else the fields on that level", path: "{.nothing}", doc: bundle(),
			want: []string{`no field "nothing" in the answer; there are: apiVersion, kind, metadata, spec, status`},
		},
		"UnsetMisspelt": {
			why: "a field of what is unset can be misspelt too", path: "{.status.display.stat}", doc: bundle(),
			want: []string{`no field "stat" in .status.display; did you mean "state"?`},
		},
		"List": {
			why: "an object's field in a list", path: "{.metadata.name}", doc: list(bundle()),
			want: []string{`no field "name" in .metadata; there are: resourceVersion; the objects of a list are in .items[*]`},
		},
		"NoList": {
			why: "a list's field of one object", path: "{.items[*].metadata.name}", doc: bundle(),
			want: []string{`no field "items" in the answer; there are: apiVersion, kind, metadata, spec, status; the answer is one object and no list: leave out .items[*]`},
		},
		"FieldOfList": {
			why: "a list has no fields", path: "{.items.metadata}", doc: list(bundle()),
			want: []string{`no field "metadata" in .items, which is a list: [*] stands for all it holds: .items[*].metadata`},
		},
		"Range": {
			why: "one of two expressions is wrong", path: `{range .items[*]}{.metadata.name} {.stauts}{"\n"}{end}`, doc: list(bundle()), found: true,
			want: []string{`no field "stauts" in .items[*]; did you mean "status"?`},
		},
		"AfterRange": {why: "the scope ends with its range", path: `{range .items[*]}{.metadata.name}{end}{.kind}`, doc: list(bundle()), found: true},
		"Filter": {
			why: "a filter's field", path: `{.items[?(@.metadata.nam=="web")].status.display.state}`, doc: list(ready),
			want: []string{`no field "nam" in .items[*].metadata; did you mean "name"?`},
		},
		"FilterFound": {why: "a filter is not judged", path: `{.items[?(@.metadata.name=="web")].status.display.state}`, doc: list(ready), found: true},
		"Union": {
			why: "each of a union", path: `{.items[*]['metadata.name', 'stauts']}`, doc: list(bundle()),
			want: []string{`no field "stauts" in .items[*]; did you mean "status"?`},
		},
		"Anywhere":      {why: "at any depth", path: "{..state}", doc: ready, found: true},
		"AnywhereUnset": {why: "a field that may be at any depth", path: "{..state}", doc: bundle()},
		"AnywhereWrong": {why: "nothing has such a name", path: "{..readyClustres}", doc: bundle(), want: []string{`no field "readyClustres" anywhere; did you mean "readyClusters"?`}},
		"Label":         {why: "labels are the user's", path: "{.metadata.labels.tier}", doc: bundle()},
		"LabelNear":     {why: "a label that is near one of the object", path: "{.metadata.labels.evn}", doc: bundle(), doubt: []string{`.metadata.labels has no key "evn"; did you mean "env"?`}},
		"Dots": {
			why: "dots in a key divide fields", path: "{.metadata.labels.fleet.cattle.io/repo-name}", doc: bundle(),
			want: []string{`no field "cattle" in .metadata.labels.fleet, which has no fields; write \. for a dot in a key`},
		},
		"Whole":   {why: "the object itself", path: "{@}", doc: bundle(), found: true},
		"Unknown": {why: "of other kinds nothing is known", path: "{.involvedObject.nam}", doc: map[string]any{"kind": "Event", "apiVersion": "v1"}},
		"Own":     {why: "documents of this program", path: "{.clusters.stats}", doc: ownDocument{}, want: []string{`no field "stats" in .clusters; did you mean "states"?`}},
		"NoItems": {why: "no object, nothing to compare with", path: "{.items[*].stauts}", doc: list()},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			wrong, doubtful, found, err := misspeltIn(c.path, c.doc)
			if err != nil {
				t.Fatal(err)
			}
			if got := texts(wrong); !slices.Equal(got, c.want) {
				t.Errorf("%s: wrong:\nwant %q\ngot  %q", c.why, c.want, got)
			}
			if got := texts(doubtful); !slices.Equal(got, c.doubt) {
				t.Errorf("%s: doubtful:\nwant %q\ngot  %q", c.why, c.doubt, got)
			}
			if found != c.found {
				t.Errorf("%s: found: want %t, got %t", c.why, c.found, found)
			}
			for _, err := range wrong {
				if !errors.Is(err, errNoField) {
					t.Errorf("%v: not errNoField", err)
				}
			}
		})
	}
}

// misspeltIn is misspelt for a document that is not decoded.
func misspeltIn(path string, doc any) (wrong, doubtful []error, matched bool, err error) {
	plain, err := throughJSON(doc)
	if err != nil {
		return nil, nil, false, err
	}
	wrong, doubtful, matched = misspelt(path, plain, shapeOf(doc))
	return wrong, doubtful, matched, nil
}

func texts(errs []error) []string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}
