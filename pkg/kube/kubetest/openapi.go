package kubetest

import (
	"path"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// openAPI is where a server describes its API. The descriptions here have no schemas: they
// say that the server takes the parameter fieldValidation, whereupon kubectl and Helm leave
// the validation to it. It validates nothing.
const openAPI = "/openapi/v3"

// documents lists the descriptions: one for each version of a group.
func (h handler) documents() any {
	out := map[string]any{}
	for r := range h.resources {
		at := pathOf(r.GroupVersion())
		out[at] = map[string]string{"serverRelativeURL": path.Join(openAPI, at)}
	}
	return map[string]any{"paths": out}
}

// document describes the kinds of a group.
func (h handler) document(gv schema.GroupVersion) any {
	paths := map[string]any{}
	for r, kind := range h.resources {
		if r.GroupVersion() != gv {
			continue
		}
		at := "/" + pathOf(gv)
		if kind.Namespaced {
			at += "/namespaces/{namespace}"
		}
		paths[at+"/"+r.Resource+"/{name}"] = map[string]any{"patch": map[string]any{
			"parameters": []any{map[string]any{"name": "fieldValidation", "in": "query", "schema": map[string]string{"type": "string"}}},
			"responses":  map[string]any{"200": map[string]string{"description": "OK"}},
			"x-kubernetes-group-version-kind": map[string]string{
				"group": kind.Group, "version": kind.Version, "kind": kind.Kind.Kind,
			},
		}}
	}
	return map[string]any{
		"openapi": "3.0.0", "info": map[string]string{"title": "kubetest", "version": "v1"}, "paths": paths,
	}
}

// pathOf is where the objects of a group are served.
func pathOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return path.Join("api", gv.Version)
	}
	return path.Join("apis", gv.Group, gv.Version)
}
