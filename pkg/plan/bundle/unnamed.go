package bundle

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
)

// unnamed warns of manifests beside a kustomization that none names: they are not deployed.
// It says nothing where some clusters get the bundle without a kustomization.
func (k kustomizeChecks) unnamed(built []kustomizeDir) {
	plain := slices.ContainsFunc(built, func(d kustomizeDir) bool { return !k.isFile(path.Join(d.dir, kustomizations[0])) })
	if plain || hasRule(k.a.found, finding.RuleYAML) || hasRule(k.a.found, finding.RuleTooLarge) || hasRule(k.a.found, finding.RuleFile) {
		return // a kustomization that is broken may mean the file
	}
	of, named := map[string]string{}, map[string]bool{} // by directory; by name without its directory
	for _, f := range k.a.files {
		base := path.Base(f.name)
		isKustomization := slices.Contains(kustomizations, base)
		if k.done[f.name] && isKustomization {
			of[path.Dir(f.name)] = base
		}
		if k.done[f.name] || isKustomization {
			k.mentioned(f, named)
		}
	}
	for _, f := range k.a.files {
		dir, base := path.Dir(f.name), path.Base(f.name)
		switch {
		case of[dir] == "", named[base], !isManifest(base), strings.ContainsFunc(base, outsideOfName):
		case slices.Contains(fleetyaml.Names, base), slices.Contains(kustomizations, base), base == chartOutput, k.isValuesFile(f.name):
		case k.isFile(path.Join(dir, chartFile)) && k.readsFiles(dir):
		case k.looksLikeManifest(f):
			k.notRead(f, fmt.Sprintf("%s is not deployed: %s does not name it", base, of[dir]), "add it to resources of the kustomization, or list it in .fleetignore")
		}
	}
}

// mentioned adds the words of a file that may be names of files. A name is taken wherever
// it stands, in a comment too, because its author then knew the file.
func (k kustomizeChecks) mentioned(f file, names map[string]bool) {
	data, err := f.bytes(kustomizationBytes)
	if err != nil {
		return
	}
	for _, word := range strings.FieldsFunc(string(data), outsideOfName) {
		names[word] = true
		names[strings.TrimRight(word, ".")] = true
	}
}

// outsideOfName reports whether a character separates names of files.
func outsideOfName(r rune) bool {
	return !strings.ContainsRune("._-", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
}
