package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"gopkg.in/yaml.v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// maxObjectsBytes bounds a file of objects: a bundle of 32 MiB, packed and in
// base64, with room for the rest.
const maxObjectsBytes = 256 << 20

// objects are what a file holds of the kinds that commands read.
type objects struct {
	bundles     []*fleet.Bundle
	clusters    []*fleet.Cluster
	groups      []*fleet.ClusterGroup
	mappings    []*fleet.BundleNamespaceMapping
	contents    []*fleet.Content
	deployments []*fleet.BundleDeployment
	secrets     []*corev1.Secret
	namespaces  []*corev1.Namespace
	others      []string // kinds that were read and are of no use
}

// readFile reads a file that the user names; - is stdin.
func readFile(name string, std printer.Stdio) ([]byte, error) {
	in := std.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxObjectsBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", shownFile(name), err)
	}
	if len(data) > maxObjectsBytes {
		return nil, fmt.Errorf("%w: %s is larger than %d MiB", errInput, shownFile(name), maxObjectsBytes>>20)
	}
	return data, nil
}

func shownFile(name string) string {
	if name == "-" {
		return "stdin"
	}
	return name
}

// readObjects reads the objects of a file that the user names; - is stdin. It says
// which of their fields nothing reads, and which values are of another type.
func readObjects(name string, std printer.Stdio) (objects, error) {
	data, err := readFile(name, std)
	if err != nil {
		return objects{}, err
	}
	f := objectFile{name: name, data: data}
	if err := f.parse(); err != nil {
		return objects{}, err
	}
	if n := reportFound(std, f.found, false); n > 0 {
		return objects{}, fmt.Errorf("%w: %s in %s", errInput, printer.Plural(n, "error"), shownFile(name))
	}
	return f.objects, nil
}

// An objectFile is a file whose objects are read.
type objectFile struct {
	objects
	name  string
	data  []byte
	found []finding.Finding // fields that nothing reads, and values of another type

	documents []*yaml.Node // with their places; nil until one is asked for
}

// parse reads a stream of YAML or JSON documents; lists are taken apart.
func (f *objectFile) parse() error {
	decode := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(f.data), 4096)
	for n := 1; ; n++ {
		raw := map[string]any{}
		err := decode.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %s, document %d: %w", errInput, shownFile(f.name), n, err)
		}
		if len(raw) == 0 {
			continue
		}
		if err := f.add(&unstructured.Unstructured{Object: raw}, n-1); err != nil {
			return fmt.Errorf("%w: %s, document %d: %w", errInput, shownFile(f.name), n, err)
		}
	}
}

// add adds the object of a document, or the items of a list: item is the path to it
// there.
func (f *objectFile) add(u *unstructured.Unstructured, document int, item ...any) error {
	if u.IsList() {
		i := -1
		return u.EachListItem(func(entry runtime.Object) error {
			i++
			return f.add(entry.(*unstructured.Unstructured), document, append(slices.Clone(item), "items", i)...)
		})
	}
	place := func() *yaml.Node { return f.place(u, document, item) }
	var err error
	switch u.GroupVersionKind().GroupKind().String() {
	case "Bundle." + fleet.Group:
		err = take(f, u, place, &f.bundles)
	case "Cluster." + fleet.Group:
		err = take(f, u, place, &f.clusters)
	case "ClusterGroup." + fleet.Group:
		err = take(f, u, place, &f.groups)
	case "BundleNamespaceMapping." + fleet.Group:
		err = take(f, u, place, &f.mappings)
	case "Content." + fleet.Group:
		err = take(f, u, place, &f.contents)
	case "BundleDeployment." + fleet.Group:
		err = take(f, u, place, &f.deployments)
	case "Secret":
		err = take(f, u, place, &f.secrets)
	case "Namespace":
		err = take(f, u, place, &f.namespaces)
	default:
		f.others = append(f.others, u.GetKind())
	}
	return err
}

// take reads an object as its type. A value of another type is an error. A field that the
// type does not have is an error, and of an object that a server has written a warning: the
// server may know more than this program. Of the same warnings the first is kept.
func take[T any](f *objectFile, u *unstructured.Unstructured, place func() *yaml.Node, into *[]*T) error {
	out := new(T)
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, out, true)
	if _, unknown := runtime.AsStrictDecodingError(err); unknown {
		err = nil
		severity := finding.Error
		if u.GetUID() != "" {
			severity = finding.Warning
		}
		for _, found := range fleetyaml.UnknownKeys[T](shownFile(f.name), place(), severity) {
			same := func(k finding.Finding) bool { return k.Severity == found.Severity && k.Message == found.Message }
			if found.Severity == finding.Error || !slices.ContainsFunc(f.found, same) {
				f.found = append(f.found, found)
			}
		}
	}
	if err != nil {
		if wrong := fleetyaml.WrongTypes[T](shownFile(f.name), place()); finding.HasErrors(wrong) {
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

// place returns the node of an object in the file. Where it cannot be found, as in a
// stream of JSON, place returns the object without positions.
func (f *objectFile) place(u *unstructured.Unstructured, document int, item []any) *yaml.Node {
	if f.documents == nil {
		for _, d := range position.Documents(f.data) {
			root := position.Root(d.Text)
			if root != nil {
				position.Shift(root, d.Before)
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

// isBundle reports whether a file holds a Bundle, in any of its documents.
func isBundle(data []byte) bool {
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

// oneBundle is the only Bundle of a file, in the namespace that it is meant
// for: that of -n if it was given, else its own, else the default.
func (g *globals) oneBundle(o objects, file string) (*fleet.Bundle, error) {
	if n := len(o.bundles); n != 1 {
		return nil, fmt.Errorf("%w: want one Bundle in %s, there are %d", errInput, shownFile(file), n)
	}
	b := o.bundles[0]
	switch {
	case g.namespace != "":
		b.Namespace = g.namespace
	case b.Namespace == "":
		b.Namespace = g.defaultNamespace
	}
	return b, nil
}
