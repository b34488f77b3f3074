package schema

import (
	"fmt"
	"slices"
	"strings"

	kube "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// hookAnnotation makes an object a hook of Helm, which looks its kind up when its turn comes.
const hookAnnotation = "helm.sh/hook"

func isHook(object map[string]any) bool {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	return annotations[hookAnnotation] != nil
}

// ownKinds are the kinds whose CRDs a bundle deploys with its other objects, and the files
// of the CRDs. Those in crds/ of a chart, and hooks, are there before the other objects;
// a downloaded chart is not judged.
func (b Bundle) ownKinds() map[kube.GroupKind]string {
	own := map[kube.GroupKind]string{}
	add := func(file string, object map[string]any) {
		if object["kind"] != "CustomResourceDefinition" || isHook(object) {
			return
		}
		if gk, d := definitionOf(object); d != nil && own[gk] == "" {
			own[gk] = file
		}
	}
	for _, name := range b.Manifests {
		for _, o := range CRDs(b.Files[name]) {
			add(name, o)
		}
	}
	for _, r := range b.Rendered {
		if r.Uncertain == "" && !strings.HasPrefix(r.File, ".chart/") && !slices.Contains(strings.Split(r.File, "/"), "crds") {
			add(r.File, r.Object)
		}
	}
	return own
}

// objectFaults are those of one object, and that its CRD is in the same bundle: Helm looks up all
// kinds before it makes the first object.
func (b *bundleCheck) objectFaults(object map[string]any) []Fault {
	list := b.kinds.Check(object)
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	gv, err := kube.ParseGroupVersion(apiVersion)
	if err != nil || isHook(object) {
		return list
	}
	file := b.ownCRDs[gv.WithKind(kind).GroupKind()]
	if file == "" {
		return list
	}
	return append(list, Fault{
		Path: []any{"kind"}, Severity: finding.Warning, Rule: finding.RuleUnknownKind,
		Message: fmt.Sprintf("the CRD of the kind is in the same bundle (%s), and Helm installs nothing of a bundle before the cluster knows all its kinds",
			position.ShortName(file)),
		Hint: "put the CRD into a bundle of its own, which dependsOn names, or into crds/ of a chart",
	})
}
