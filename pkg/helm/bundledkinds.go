package helm

import (
	"context"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"

	"helm.sh/helm/v3/pkg/chartutil"
	helmkube "helm.sh/helm/v3/pkg/kube"
)

const (
	// kindTimeout is how long an installation waits for the kinds of its CRDs: as long
	// as Helm waits for a CRD to be Established.
	kindTimeout = time.Minute
	// kindInterval is the time between two requests for the kinds of the cluster.
	kindInterval = 250 * time.Millisecond
)

// bundledKinds are the kinds that the CRDs of a chart's crds folders bring. The API
// server says that a CRD is Established before its discovery lists the kind, and
// templates see what discovery lists.
type bundledKinds struct {
	// unbuilt are the files that Helm has not built objects of yet, by their text.
	unbuilt sets.Set[string]
	// made and found are the CRDs that this installation has created, and those that
	// were there before.
	made, found []*unstructured.Unstructured
	// capabilities are the capabilities with which Helm renders after the CRDs.
	capabilities *chartutil.Capabilities
}

// built notes that Helm has built the objects of a file.
func (b *bundledKinds) built(text string) { b.unbuilt.Delete(text) }

// isMissing reports whether a kind is not among the versions that templates see. For a
// CRD that existed before, any version is enough: it may differ from the one of this
// chart.
func (b *bundledKinds) isMissing(versions chartutil.VersionSet) bool {
	lacks := func(crd *unstructured.Unstructured) bool {
		return slices.ContainsFunc(servedBy(crd), func(v string) bool { return !versions.Has(v) })
	}
	unknown := func(crd *unstructured.Unstructured) bool {
		gk, _ := kindOf(crd)
		return !slices.ContainsFunc(versions, func(v string) bool {
			return strings.HasPrefix(v, gk.Group+"/") && strings.HasSuffix(v, "/"+gk.Kind)
		})
	}
	return slices.ContainsFunc(b.made, lacks) || slices.ContainsFunc(b.found, unknown)
}

// awaitKinds waits, after the last file of the chart's crds folders, until the cluster's
// discovery lists the kinds that they bring, and renders with what is listed then. err is
// the outcome of the creation of the list. Helm waits for a CRD that it has created
// itself, but not for what discovery lists, and not for a CRD that another release has
// created a moment before. A kind that is still missing after kindTimeout is no error
// here: the lookup of its first object fails.
func (e *engine) awaitKinds(list helmkube.ResourceList, err error) {
	b := &e.kinds
	if b.capabilities == nil || err != nil && !apierrors.IsAlreadyExists(err) {
		return
	}
	for _, info := range list {
		crd, ok := info.Object.(*unstructured.Unstructured)
		switch {
		case e.crdFiles[info] == "" || !ok:
		case err == nil:
			b.made = append(b.made, crd)
		default:
			b.found = append(b.found, crd)
		}
	}
	if len(b.unbuilt) > 0 || len(b.made)+len(b.found) == 0 {
		return
	}
	_ = wait.PollUntilContextTimeout(context.Background(), kindInterval, kindTimeout, true, func(context.Context) (bool, error) {
		e.api.refresh()
		known, err := e.api.knownCapabilities()
		if err != nil {
			return false, nil //nolint:nilerr // it may pass, and what needs the cluster next says so
		}
		b.capabilities.APIVersions = known.APIVersions
		return !b.isMissing(known.APIVersions), nil
	})
	b.capabilities, b.made, b.found = nil, nil, nil
}

// kindOf is the kind that a CRD brings, and the versions that it serves.
func kindOf(crd *unstructured.Unstructured) (gk schema.GroupKind, served []string) {
	gk.Group, _, _ = unstructured.NestedString(crd.Object, "spec", "group")
	gk.Kind, _, _ = unstructured.NestedString(crd.Object, "spec", "names", "kind")
	list, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, entry := range list {
		v, _ := entry.(map[string]any)
		if name, ok := v["name"].(string); ok && v["served"] != false {
			served = append(served, name)
		}
	}
	return gk, served
}

// servedBy lists the versions and kinds that a CRD serves, as templates see them.
func servedBy(crd *unstructured.Unstructured) []string {
	gk, versions := kindOf(crd)
	var out []string
	for _, v := range versions {
		gv := gk.Group + "/" + v
		out = append(out, gv, gv+"/"+gk.Kind)
	}
	return out
}
