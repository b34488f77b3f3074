package sources

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"gopkg.in/yaml.v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// Objects are what a file holds of the kinds that commands read.
type Objects struct {
	bundles      []*fleet.Bundle
	Clusters     []*fleet.Cluster
	Groups       []*fleet.ClusterGroup
	mappings     []*fleet.BundleNamespaceMapping
	contents     []*fleet.Content
	Deployments  []*fleet.BundleDeployment
	Secrets      []*corev1.Secret
	namespaces   []*corev1.Namespace
	Restrictions []*fleet.GitRepoRestriction
	Policies     []*fleet.Policy
	others       []string // kinds that were read and are of no use
}

// ReadObjects reads the objects of a file that the user names; - is stdin. It says
// which of their fields nothing reads, and which values are of another type.
func ReadObjects(name string, std printer.Stdio) (Objects, error) {
	data, err := cli.ReadFile(name, std)
	if err != nil {
		return Objects{}, err
	}
	f := objectFile{name: name, data: data}
	if err := f.parseDocuments(); err != nil {
		return Objects{}, err
	}
	if n := ReportFound(std, f.found, false); n > 0 {
		return Objects{}, fmt.Errorf("%w: %s in %s", cli.ErrInput, printer.Plural(n, "error"), cli.ShownFile(name))
	}
	return f.Objects, nil
}

// An objectFile is a file whose objects are read.
type objectFile struct {
	Objects
	name  string
	data  []byte
	found []finding.Finding // fields that nothing reads, and values of another type

	documents []*yaml.Node // with their places; nil until one is asked for
}

// parseDocuments reads a stream of YAML or JSON documents; lists are taken apart.
func (f *objectFile) parseDocuments() error {
	decode := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(f.data), 4096)
	for n := 1; ; n++ {
		raw := map[string]any{}
		err := decode.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %s, document %d: %w", cli.ErrInput, cli.ShownFile(f.name), n, err)
		}
		if len(raw) == 0 {
			continue
		}
		if err := f.addObject(&unstructured.Unstructured{Object: raw}, n-1); err != nil {
			return fmt.Errorf("%w: %s, document %d: %w", cli.ErrInput, cli.ShownFile(f.name), n, err)
		}
	}
}

// addObject adds the object of a document, or the items of a list: item is the path to it
// there.
func (f *objectFile) addObject(u *unstructured.Unstructured, document int, item ...any) error {
	if u.IsList() {
		i := -1
		return u.EachListItem(func(entry runtime.Object) error {
			i++
			return f.addObject(entry.(*unstructured.Unstructured), document, append(slices.Clone(item), "items", i)...)
		})
	}
	place := func() *yaml.Node { return f.nodeOf(u, document, item) }
	var err error
	switch u.GroupVersionKind().GroupKind().String() {
	case "Bundle." + fleet.Group:
		err = convertObject(f, u, place, &f.bundles)
	case "Cluster." + fleet.Group:
		err = convertObject(f, u, place, &f.Clusters)
	case "ClusterGroup." + fleet.Group:
		err = convertObject(f, u, place, &f.Groups)
	case "BundleNamespaceMapping." + fleet.Group:
		err = convertObject(f, u, place, &f.mappings)
	case "GitRepoRestriction." + fleet.Group:
		err = convertObject(f, u, place, &f.Restrictions)
	case "Policy." + fleet.Group:
		err = convertObject(f, u, place, &f.Policies)
	case "Content." + fleet.Group:
		err = convertObject(f, u, place, &f.contents)
	case "BundleDeployment." + fleet.Group:
		err = convertObject(f, u, place, &f.Deployments)
	case "Secret":
		err = convertObject(f, u, place, &f.Secrets)
	case "Namespace":
		err = convertObject(f, u, place, &f.namespaces)
	default:
		f.others = append(f.others, u.GetKind())
	}
	return err
}

// convertObject reads an object as its type. A value of another type is an error. A field that the
// type does not have is an error, and of an object that a server has written a warning: the
// server may know more than this program. Of the same warnings the first is kept.
func convertObject[T any](f *objectFile, u *unstructured.Unstructured, place func() *yaml.Node, into *[]*T) error {
	out := new(T)
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, out, true)
	if _, unknown := runtime.AsStrictDecodingError(err); unknown {
		err = nil
		severity := finding.Error
		if u.GetUID() != "" {
			severity = finding.Warning
		}
		for _, found := range fleetyaml.UnknownKeys[T](cli.ShownFile(f.name), place(), severity) {
			same := func(k finding.Finding) bool { return k.Severity == found.Severity && k.Message == found.Message }
			if found.Severity == finding.Error || !slices.ContainsFunc(f.found, same) {
				f.found = append(f.found, found)
			}
		}
	}
	if err != nil {
		if wrong := fleetyaml.WrongTypes[T](cli.ShownFile(f.name), place()); finding.HasErrors(wrong) {
			f.found = append(f.found, wrong...)
			return nil
		}
		return fmt.Errorf("%s %q: %w", u.GetKind(), u.GetName(), err)
	}
	if m, err := meta.Accessor(out); err == nil && m.GetName() == "" {
		return fmt.Errorf("%s without metadata.name", u.GetKind())
	}
	*into = append(*into, out)
	return nil
}

// nodeOf returns the node of an object in the file. Where it cannot be found, as in a
// stream of JSON, place returns the object without positions.
func (f *objectFile) nodeOf(u *unstructured.Unstructured, document int, item []any) *yaml.Node {
	if f.documents == nil {
		for _, d := range position.Documents(f.data) {
			root := position.Root(d.Text)
			if root != nil {
				position.ShiftLines(root, d.Before)
			}
			if len(d.Text) > 0 { // as the decoder numbers it
				f.documents = append(f.documents, root)
			}
		}
	}
	if document < len(f.documents) {
		n := f.documents[document]
		for _, key := range item {
			n = position.Value(n, key)
		}
		kind, _ := position.Text(n, "kind")
		name, _ := position.Text(n, "metadata", "name")
		if n != nil && kind == u.GetKind() && name == u.GetName() {
			return n
		}
	}
	n := &yaml.Node{}
	if err := n.Encode(u.Object); err != nil {
		return nil
	}
	return n
}

// IsBundle reports whether a file holds a Bundle, in any of its documents.
func IsBundle(data []byte) bool {
	decode := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var doc struct {
			metav1.TypeMeta `json:",inline"`

			Items []metav1.TypeMeta `json:"items"`
		}
		if decode.Decode(&doc) != nil {
			return false
		}
		if isBundleKind(doc.TypeMeta) || slices.ContainsFunc(doc.Items, isBundleKind) {
			return true
		}
	}
}

func isBundleKind(t metav1.TypeMeta) bool {
	return t.APIVersion == fleet.GroupVersion.String() && (t.Kind == "Bundle" || t.Kind == "BundleList")
}

// OneBundle is the only Bundle of a file, in the namespace that it is meant
// for: that of -n if it was given, else its own, else the default.
func OneBundle(g *client.Globals, o Objects, file string) (*fleet.Bundle, error) {
	if n := len(o.bundles); n != 1 {
		return nil, fmt.Errorf("%w: want one Bundle in %s, there are %d", cli.ErrInput, cli.ShownFile(file), n)
	}
	b := o.bundles[0]
	switch {
	case g.Namespace != "":
		b.Namespace = g.Namespace
	case b.Namespace == "":
		b.Namespace = g.DefaultNamespace
	}
	return b, nil
}
