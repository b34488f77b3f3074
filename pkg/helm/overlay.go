package helm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/rancher/wrangler/v3/pkg/patch"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// overlaysDir holds the overlays of a bundle of plain manifests.
const overlaysDir = "overlays/"

// overlaid are the files of a bundle of plain manifests with the named overlays
// applied, one after another, and without those in the folder overlays. In an overlay,
// overlays/<name>/<path> becomes <path>, and overlays/<name>/<dir>/<file>_patch.<ext>
// is applied to <dir>/<file>.<ext>. Errors are reconcile.Terminal.
func overlaid(files []file, names []string) ([]file, error) {
	byName := map[string][]byte{}
	for _, f := range files {
		byName[f.name] = f.data
	}
	for _, name := range names {
		prefix := overlaysDir + strings.Trim(name, "/") + "/"
		var patches []file
		for _, f := range files {
			rest, ok := strings.CutPrefix(f.name, prefix)
			if !ok {
				continue
			}
			if strings.Contains(path.Base(rest), "_patch.") {
				patches = append(patches, file{name: rest, data: f.data})
				continue
			}
			byName[rest] = f.data
		}
		for _, p := range patches { // after the files of the overlay, so that their order does not matter
			if err := patched(byName, p); err != nil {
				return nil, reconcile.TerminalError(release.ReasonBadYAML, fmt.Errorf("%s%s: %w", prefix, p.name, err))
			}
		}
	}
	var out []file
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if !strings.HasPrefix(name, overlaysDir) {
			out = append(out, file{name: name, data: byName[name]})
		}
	}
	return out, nil
}

// patched applies a patch to the file that its name leads to: a JSON patch if
// it is a list, a strategic merge patch for kinds of Kubernetes, else a JSON
// merge patch.
func patched(files map[string][]byte, p file) error {
	dir, base := path.Split(p.name)
	target := dir + strings.Replace(base, "_patch.", ".", 1)
	data, ok := files[target]
	if !ok {
		return fmt.Errorf("there is no file %q to patch", target)
	}
	original, err := oneDocument(data)
	if err != nil {
		return fmt.Errorf("%s cannot be patched: %w", target, err)
	}
	change, err := oneDocument(p.data)
	if err != nil {
		return err
	}
	out, err := patch.Apply(original, change)
	if err != nil {
		return fmt.Errorf("patch %s: %w", target, err)
	}
	files[target] = out
	return nil
}

var errDocuments = errors.New("it holds several documents, and a patch is for one")

// oneDocument is a file of YAML or JSON with exactly one document, as JSON.
func oneDocument(data []byte) ([]byte, error) {
	found := []byte("null")
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		asJSON, err := yaml.YAMLToJSON(doc)
		switch {
		case err != nil:
			return nil, err
		case string(asJSON) == "null": // comments alone
		case string(found) != "null":
			return nil, errDocuments
		default:
			found = asJSON
		}
	}
}
