package helm

import (
	"fmt"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/yaml"
)

// An outside counts what leaves the process: requests to a server that listens
// on 127.0.0.1, requests to any other address, and programs that were started.
type outside struct {
	url      string
	requests atomic.Int32
	programs string // file that git and helm of PATH write
	temp     string // the folder for temporary files, in which kustomize clones
}

// RoundTrip counts a request. It answers those to the server only.
func (o *outside) RoundTrip(r *http.Request) (*http.Response, error) {
	o.requests.Add(1)
	if "http://"+r.URL.Host != o.url {
		return nil, fmt.Errorf("no connection to %s in tests", r.URL.Host)
	}
	return (&http.Transport{}).RoundTrip(r)
}

// count returns how many requests there were and whether a program was started, and
// forgets them.
func (o *outside) count() (requests int, programs bool) {
	_, err := os.Stat(o.programs)
	_ = os.Remove(o.programs)
	return int(o.requests.Swap(0)), err == nil
}

// kept returns the temporary folders that kustomize has left, and removes them.
func (o *outside) kept(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(o.temp, "kustomize-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	return dirs
}

func newOutside(t *testing.T) *outside {
	o := &outside{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		o.requests.Add(1)
		_, _ = w.Write([]byte(renderMap))
	}))
	t.Cleanup(server.Close)
	o.url = server.URL
	o.programs = filepath.Join(t.TempDir(), "started")
	o.temp = t.TempDir()
	t.Setenv("TMPDIR", o.temp)
	bin := t.TempDir()
	for _, name := range []string{"git", "helm", "helmV3", "evil"} {
		script := "#!/bin/sh\necho >" + o.programs + "\nexit 1\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil { //nolint:gosec // it is a program
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	silent, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = silent // as the programs do: kustomize warns there
	log.SetOutput(silent)
	t.Cleanup(func() { os.Stderr = stderr; log.SetOutput(stderr); silent.Close() })
	before := http.DefaultTransport
	http.DefaultTransport = o
	t.Cleanup(func() { http.DefaultTransport = before })
	return o
}

// setText is a document in which one text, or a list or a map with it, is set.
func setText(doc map[string]any, p string, value any) map[string]any {
	name, rest, _ := strings.Cut(p, ".")
	key, list := strings.CutSuffix(name, "[]")
	if rest == "*" {
		rest, value = "", map[string]any{"path": value}
	}
	inner := value
	if rest != "" {
		next, _ := doc[key].(map[string]any)
		if l, ok := doc[key].([]any); ok && len(l) > 0 {
			next, _ = l[0].(map[string]any)
		}
		if next == nil {
			next = map[string]any{}
		}
		inner = setText(next, rest, value)
	}
	if list {
		inner = []any{inner}
	}
	doc[key] = inner
	return doc
}

// companions returns the fields without which kustomize ignores another field.
func companions() map[string]any {
	target := map[string]any{"version": "v1", "kind": "ConfigMap", "name": "raw"}
	return map[string]any{
		"configMapGenerator": []any{map[string]any{"name": "made"}}, "secretGenerator": []any{map[string]any{"name": "made"}},
		"patches": []any{map[string]any{"target": maps.Clone(target)}}, "patchesJson6902": []any{map[string]any{"target": target}},
		"helmCharts": []any{map[string]any{"name": "c"}}, "helmChartInflationGenerator": []any{map[string]any{"chartName": "c"}},
	}
}

// kustomizationWith is a kustomization of which one text is set.
func kustomizationWith(p string, value any) map[string]any {
	doc := map[string]any{"resources": []any{"a.yaml"}}
	key, _, _ := strings.Cut(strings.ReplaceAll(p, "[]", ""), ".")
	if c := companions()[key]; c != nil {
		doc[key] = c
	}
	return setText(doc, p, value)
}

// spellings are ways to write a key that kustomize takes for the same.
var spellings = map[string]func(string) string{
	"Exact": func(s string) string { return s },
	"Upper": strings.ToUpper,
	"Title": func(s string) string { return strings.ToUpper(s[:1]) + s[1:] },
	"Fold":  func(s string) string { return strings.NewReplacer("s", "ſ", "k", "K").Replace(s) },
}

// respell writes the keys of a document, except those of maps of texts.
func respell(v any, spell func(string) string) any {
	switch t := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range t {
			if k == "openapi" {
				out[spell(k)] = e
				continue
			}
			out[spell(k)] = respell(e, spell)
		}
		return out
	case []any:
		out := make([]any, len(t))
		for i, e := range t {
			out[i] = respell(e, spell)
		}
		return out
	}
	return v
}

func yamlOf(t *testing.T, v any) string {
	t.Helper()
	if m, ok := v.(map[string]any); ok && len(m) == 0 {
		return ""
	}
	data, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
