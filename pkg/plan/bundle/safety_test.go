package bundle

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/test/raced"
)

// aliasBomb is 10^9 values in nine lines of YAML, wideBomb 1 GB of text in 130
// KB.
func aliasBomb() string {
	text := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 9; i++ {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	return text
}

func wideBomb() string {
	return "a: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a,", 10_000) + "]\n"
}

// What is too large is refused with its place after few bytes; the bundle beside
// it is made. The tree counts what was read.
func TestRefusedUnread(t *testing.T) {
	longLine := "a: \"" + strings.Repeat("x", 10<<20) + "\"\n"
	cases := map[string]struct {
		why   string
		tree  map[string]string
		found []string
		read  int // bytes that may be read below d, if not 0
	}{
		"ValuesWideBomb": {why: "few aliases of a long text", tree: map[string]string{"d/fleet.yaml": "helm: {chart: ., valuesFiles: [v]}", "d/Chart.yaml": "name: c", "d/v": wideBomb()}, found: []string{"d/v:2:1: error: its aliases unfold to more than 16 MiB [too-large]"}},
		"ValuesLarge": {
			why: "not a byte of it is read", tree: map[string]string{"d/fleet.yaml": "helm: {chart: ., valuesFiles: [v]}", "d/Chart.yaml": "name: c", "d/v": longLine}, read: 1000,
			found: []string{`d/fleet.yaml:1:32: error: values file "v" cannot be read: it is too large: it has 10240 KiB, at most 4096 are read [too-large]`},
		},
		"FleetYAMLLarge": {tree: map[string]string{"d/fleet.yaml": longLine}, read: 1000, found: []string{"d/fleet.yaml:1:1: error: cannot be read: it is too large: it has 10240 KiB, at most 1024 are read [too-large]"}},
		"ManifestLine":   {tree: map[string]string{"d/cm.yaml": configMap + longLine}, found: []string{"d/cm.yaml:4:1: error: the line is longer than 4096 KiB [too-large]"}},
		"IgnoreLarge":    {tree: map[string]string{"d/.fleetignore": strings.Repeat("*a*b*c\n", 100_000), "d/cm.yaml": configMap}, read: 1000, found: []string{"d/.fleetignore:1:1: error: cannot be read: it is too large: it has 683 KiB, at most 256 are read [ignore-file]"}},
		"IgnoreMany":     {tree: map[string]string{"d/.fleetignore": strings.Repeat("*a*b*c\n", 30_000), "d/cm.yaml": configMap}, found: []string{"d/.fleetignore:1001:1: error: there are too many patterns [ignore-file]"}},
		"ChartLarge": {
			tree: map[string]string{"d/Chart.yaml": longLine, "d/templates/a.yaml": "a: b"},
			found: []string{
				"d/Chart.yaml:1:1: error: cannot be read: it is too large: it has 10240 KiB, at most 1024 are read [file]", "d/Chart.yaml:1:1: error: the line is longer than 4096 KiB [too-large]",
			},
		},
		"KustomizationLarge": {tree: map[string]string{"d/kustomization.yaml": longLine}, found: []string{"d/kustomization.yaml:1:1: error: cannot be read: it is too large: it has 10240 KiB, at most 1024 are read [too-large]", "d/kustomization.yaml:1:1: error: the line is longer than 4096 KiB [too-large]"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tree := refused(t, c.tree, c.found)
			if got := tree.total("d/"); c.read != 0 && got > c.read {
				t.Errorf("%s: %d bytes were read", c.why, got)
			}
		})
	}
}

// Paths of the GitRepo do not lead out either.
func TestPathsThatLeadOut(t *testing.T) {
	tree := newHashed(files(map[string]string{"d/cm.yaml": configMap, "up": "-> ../..", "etc": "-> /etc", "loop": "-> loop", "l1": "-> l2", "l2": "-> ../x"}))
	for _, p := range []string{"../d", "up", "up/x", "etc", "etc/*", "loop", "l1", "d/../../x"} {
		dirs, found := Discover(tree, []string{p})
		if len(dirs) > 0 || len(found) == 0 {
			t.Errorf("%s: %v, %v", p, dirs, found)
		}
		set := Read(tree, nil, []fleet.BundlePath{{Base: p}, {Base: "d", Options: "../" + p + "/fleet.yaml"}}, Options{Repo: "repo"})
		for _, r := range set.Results {
			if r.Bundle != nil {
				t.Errorf("%s: a bundle of %v", p, r.Dir)
			}
		}
	}
	if len(tree.files) > 0 {
		t.Errorf("read %v", tree.files)
	}
}

// One read stays below 256 MiB, with as much as the limits allow and with what
// is refused.
func TestMemory(t *testing.T) {
	if testing.Short() || raced.Enabled {
		t.Skip("reads some hundred MiB")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // GOGC must not change what is measured
	r := rand.NewChaCha8([32]byte{1})
	text := []byte(strings.Repeat("key: value of this line, and some more\n", 64<<20/39))
	noise := make([]byte, 12<<20)
	r.Read(noise)
	flow := []byte("a: [" + strings.Repeat("a,", 19<<16) + "]\n") // 1.2 million values on one line
	some := []byte("a: [" + strings.Repeat("a,", 240_000) + "]\n")
	var long bytes.Buffer // few values, all long
	for i := range 15 {
		fmt.Fprintf(&long, "a%d: \"%s\"\n", i, strings.Repeat("x", 4<<20-100))
	}
	var targets bytes.Buffer // each with all values that there may be, and merged
	targets.WriteString("helm: {chart: .}\ntargetCustomizations:\n")
	for range 12 {
		targets.WriteString("- {clusterName: c, helm: {valuesFiles: [v.yaml, v.yaml]}}\n")
	}
	keys := []byte("a: {")
	for i := range 20_000 {
		keys = fmt.Appendf(keys, "k%d: 1,", i)
	}
	keys = append(keys, "}\n"...)
	cases := map[string]map[string][]byte{
		"LongValues":   {"a.yaml": long.Bytes()},
		"Targets":      {"fleet.yaml": targets.Bytes(), "Chart.yaml": []byte("name: c\nversion: 1.0.0"), "v.yaml": keys},
		"Bombs":        {"a.yaml": []byte(aliasBomb()), "Chart.yaml": []byte(aliasBomb()), "kustomization.yaml": []byte(aliasBomb()), "values.yaml": []byte(aliasBomb())},
		"OptionsBomb":  {"fleet.yaml": []byte(aliasBomb()), "a.yaml": []byte(configMap)},
		"ValuesBomb":   {"fleet.yaml": []byte("helm: {chart: ., valuesFiles: [v.yaml]}"), "v.yaml": []byte(aliasBomb())},
		"WideBomb":     {"fleet.yaml": []byte("helm: {chart: ., valuesFiles: [v.yaml]}"), "v.yaml": []byte(wideBomb()), "Chart.yaml": []byte(wideBomb())},
		"Texts":        {"a.txt": text, "b.txt": text[:len(text)-8<<20]},
		"Binaries":     {"a.bin": noise, "b.bin": noise, "c.txt": text[:60<<20]},
		"TooLarge":     {"a.bin": noise, "b.bin": noise, "c.bin": noise, "d.txt": text[:60<<20]},
		"ManyValues":   {"a.yaml": flow, "b.yaml": flow},
		"SomeValues":   {"a.yaml": some, "b.yaml": some, "c.yaml": some},
		"OneDocument":  {"a.yaml": text},
		"LargeValues":  {"fleet.yaml": []byte("helm: {chart: ., valuesFiles: [v.yaml]}"), "Chart.yaml": []byte("name: c\nversion: 1.0.0"), "v.yaml": flow},
		"Kustomizable": {"kustomization.yaml": []byte("resources: [a.yaml]\n"), "a.yaml": flow},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tree := lean{fstest.MapFS{}}
			for p, data := range c {
				tree.MapFS["d/"+p] = &fstest.MapFile{Data: data, Mode: 0o644}
			}
			runtime.GC()
			var before runtime.MemStats
			runtime.ReadMemStats(&before)
			var peak atomic.Uint64
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for tick := time.NewTicker(10 * time.Millisecond); ; {
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					if m.HeapInuse > peak.Load() {
						peak.Store(m.HeapInuse)
					}
					select {
					case <-stop:
						return
					case <-tick.C:
					}
				}
			}()
			result := Assemble(tree, Dir{Path: "d"}, Options{Repo: "repo"})
			close(stop)
			<-done
			used := int64(peak.Load()) - int64(before.HeapInuse)
			t.Logf("%d MiB, %d resources, %v", used>>20, len(names(result.Bundle)), texts(result.Findings))
			if used > 256<<20 {
				t.Errorf("reading took %d MiB", used>>20)
			}
		})
	}
}

// lean hands out files without copying them first, so that only what reading
// needs is measured; a git tree makes one copy.
type lean struct{ fstest.MapFS }

func (l lean) ReadFile(name string) ([]byte, error) {
	f, err := l.Open(name)
	if err != nil {
		return nil, err
	}
	f.Close()
	return append([]byte(nil), l.MapFS[name].Data...), nil
}

func FuzzAssemble(f *testing.F) {
	f.Add(uint64(1), "fleet.yaml", "helm: {chart: .}\n", "dependencies:\n- {name: a, repository: 'file://..'}\n")
	f.Add(uint64(2), "kustomization.yaml", "resources: [../..]\n", "-> ../../etc")
	f.Add(uint64(3), ".fleetignore", "[", "a: &a [*a]\n")
	f.Add(uint64(4), "Chart.yaml", "name: ../x\nversion: 1\ndependencies: [null]\n", "")
	f.Add(uint64(5), "values.yaml", " a: b\nc: d\n", " name: x\nversion: 1\n...\na: b\n")
	f.Fuzz(func(t *testing.T, seed uint64, base, one, two string) {
		r := rand.New(rand.NewPCG(seed, 0))
		w := newWorld()
		for range 8 {
			someEdit(r, w).apply(w)
		}
		if fs.ValidPath(base) && base != "." && !strings.Contains(base, "/") {
			w.write("d/"+base, one)
			w.write("d/Chart.yaml", two)
		}
		set, _ := w.read(nil)
		again, _ := w.read(nil)
		if set.print() != again.print() {
			t.Fatal("two readings of one tree differ")
		}
		for _, r := range set.Results {
			for _, n := range names(r.Bundle) {
				if strings.HasPrefix(n, "/") || strings.HasPrefix(n, "../") || strings.Contains(n, "/../") {
					t.Fatalf("resource %q", n)
				}
			}
		}
	})
}
