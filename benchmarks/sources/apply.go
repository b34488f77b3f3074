package sources

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"time"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/fleetworkspace/fleet/hack/measure"
)

// variableReference names the reference's command line; without it ours is
// measured alone.
const variableReference = "BENCH_REFERENCE"

// An applier is a command line that reads directories.
type applier struct {
	name, path string
	uses       []usage
	out        []byte
}

// apply measures `fleet apply -o -` of many bundles, side by side with the
// reference's where that is given. Both get the same arguments and a kubeconfig
// that leads nowhere.
func (e *env) apply(ctx context.Context) error {
	programs, err := e.programs(ctx)
	if err != nil {
		return err
	}
	list := []*applier{{name: "this", path: filepath.Join(programs, "fleet")}}
	if path := os.Getenv(variableReference); path != "" {
		list = append(list, &applier{name: "reference", path: path})
	}
	dir := filepath.Join(e.dir, "apply")
	if err := writeTree(filepath.Join(dir, "bundles"), e.applyBundles); err != nil {
		return err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(nowhere), 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	for range e.runs {
		for _, a := range list { // in turn, so that both see the same machine
			if err := a.run(ctx, dir, kubeconfig); err != nil {
				return err
			}
		}
	}
	measure.Title(fmt.Sprintf("fleet apply -o - on %d bundles of 3 files", e.applyBundles))
	measure.Row("command line", "bundles", "wall, median", "CPU, median", "most memory", fmt.Sprintf("wall of all %d runs (s)", e.runs))
	measure.Row("---", "---", "---", "---", "---", "---")
	for _, a := range list {
		if err := a.print(); err != nil {
			return err
		}
	}
	wall, err := readAll(dir)
	if err != nil {
		return err
	}
	measure.Row("ceiling: reading the files", "-", measure.Milliseconds(wall), "-", "-", "-")
	if len(list) == 1 {
		fmt.Printf("\nAlone: %s names no reference.\n", variableReference)
		return nil
	}
	same, err := sameDocuments(list[0].out, list[1].out)
	fmt.Printf("\nBoth print the same Bundles: %t.\n", same)
	return err
}

// nowhere is a kubeconfig without a server behind it: no request is to be sent.
const nowhere = `apiVersion: v1
kind: Config
current-context: nowhere
clusters: [{name: nowhere, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: nowhere, user: {}}]
contexts: [{name: nowhere, context: {cluster: nowhere, user: nowhere}}]
`

func (a *applier) run(ctx context.Context, dir, kubeconfig string) error {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, a.path, "apply", "-n", "fleet-default", "--commit", "0000000000000000000000000000000000000000",
		"-o", "-", "bench", "bundles")
	cmd.Dir, cmd.Stdout = dir, &out
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	u, err := measured(cmd)
	if err != nil {
		return err
	}
	a.uses, a.out = append(a.uses, u), out.Bytes()
	return nil
}

func (a *applier) print() error {
	var wall, cpu []time.Duration
	peak := 0
	for _, u := range a.uses {
		wall, cpu, peak = append(wall, u.Wall), append(cpu, u.CPU), max(peak, u.Peak)
	}
	docs, err := documents(a.out)
	if err != nil {
		return fmt.Errorf("%s: %w", a.name, err)
	}
	measure.Row(a.name, fmt.Sprint(len(docs)), measure.Milliseconds(measure.Median(wall)), measure.Milliseconds(measure.Median(cpu)), measure.MiB(peak), measure.List(wall))
	return nil
}

// documents are what a command line printed, by name.
func documents(text []byte) (map[string]any, error) {
	out := map[string]any{}
	decode := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		doc := map[string]any{}
		err := decode.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if metadata, ok := doc["metadata"].(map[string]any); ok {
			out[fmt.Sprint(metadata["name"])] = doc
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no bundles in %d bytes of output", len(text))
	}
	return out, nil
}

func sameDocuments(a, b []byte) (bool, error) {
	first, err := documents(a)
	if err != nil {
		return false, err
	}
	second, err := documents(b)
	return reflect.DeepEqual(first, second), err
}

// readAll is how long it takes to read all files of a folder, once.
func readAll(dir string) (time.Duration, error) {
	begin := time.Now()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		_, err = os.ReadFile(path)
		return err
	})
	return time.Since(begin), err
}
