package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
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
func readFile(name string, std stdio) ([]byte, error) {
	in := std.in
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

// readObjects reads the objects of a file that the user names; - is stdin.
func readObjects(name string, std stdio) (objects, error) {
	data, err := readFile(name, std)
	if err != nil {
		return objects{}, err
	}
	return parseObjects(data, name)
}

// parseObjects reads a stream of YAML or JSON documents; lists are taken apart.
// name is the file, for errors.
func parseObjects(data []byte, name string) (objects, error) {
	var out objects
	decode := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for n := 1; ; n++ {
		raw := map[string]any{}
		err := decode.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, fmt.Errorf("%w: %s, document %d: %w", errInput, shownFile(name), n, err)
		}
		if len(raw) == 0 {
			continue
		}
		if err := out.add(&unstructured.Unstructured{Object: raw}); err != nil {
			return out, fmt.Errorf("%w: %s, document %d: %w", errInput, shownFile(name), n, err)
		}
	}
}

// add takes in one object, or the items of a list.
func (o *objects) add(u *unstructured.Unstructured) error {
	if u.IsList() {
		return u.EachListItem(func(item runtime.Object) error { return o.add(item.(*unstructured.Unstructured)) })
	}
	var err error
	switch u.GroupVersionKind().GroupKind().String() {
	case "Bundle." + fleet.Group:
		err = take(u, &o.bundles)
	case "Cluster." + fleet.Group:
		err = take(u, &o.clusters)
	case "ClusterGroup." + fleet.Group:
		err = take(u, &o.groups)
	case "BundleNamespaceMapping." + fleet.Group:
		err = take(u, &o.mappings)
	case "Content." + fleet.Group:
		err = take(u, &o.contents)
	case "BundleDeployment." + fleet.Group:
		err = take(u, &o.deployments)
	case "Secret":
		err = take(u, &o.secrets)
	case "Namespace":
		err = take(u, &o.namespaces)
	default:
		o.others = append(o.others, u.GetKind())
	}
	return err
}

// take reads an object as its type.
func take[T any](u *unstructured.Unstructured, into *[]*T) error {
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return fmt.Errorf("%s %q: %w", u.GetKind(), u.GetName(), err)
	}
	if m, err := meta.Accessor(out); err == nil && m.GetName() == "" {
		return fmt.Errorf("%s without metadata.name", u.GetKind())
	}
	*into = append(*into, out)
	return nil
}

// isBundle tells whether data is one Bundle, and not a file in the format of
// fleet.yaml.
func isBundle(data []byte) bool {
	head := struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}{}
	err := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096).Decode(&head)
	return err == nil && head.APIVersion == fleet.GroupVersion.String() && (head.Kind == "Bundle" || head.Kind == "BundleList")
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
