package drift

// keptBy returns a function that reports whether the CRD's schema of a custom resource has
// a field. The API server drops other fields, so they would always be missing. keptBy
// returns nil where every field is kept.
func keptBy(k kind, schema func() map[string]any) func(names []string) bool {
	if k.typed || schema == nil {
		return nil
	}
	return func(names []string) bool {
		s := schema()
		return s == nil || schemaHasField(s, names)
	}
}

// schemaHasField walks through a structural schema. Entries of lists are no step of names.
func schemaHasField(schema map[string]any, names []string) bool {
	at := schema
	for i, name := range names {
		at = entries(at)
		if i == 0 && (name == "apiVersion" || name == "kind" || name == "metadata") {
			return true
		}
		if at["x-kubernetes-embedded-resource"] == true && (name == "apiVersion" || name == "kind" || name == "metadata") {
			return true
		}
		next, known := child(at, name)
		if !known {
			return at["x-kubernetes-preserve-unknown-fields"] == true
		}
		if next == nil {
			return true // anything goes from here on
		}
		at = next
	}
	return true
}

// entries is the schema of a list's entries, or the schema itself.
func entries(schema map[string]any) map[string]any {
	for {
		items, ok := schema["items"].(map[string]any)
		if !ok {
			return schema
		}
		schema = items
	}
}

// child is the schema of a field; nil if it may hold anything. It is false if the
// field is not known.
func child(schema map[string]any, name string) (map[string]any, bool) {
	if properties, ok := schema["properties"].(map[string]any); ok {
		if p, ok := properties[name].(map[string]any); ok {
			return p, true
		}
	}
	switch more := schema["additionalProperties"].(type) {
	case map[string]any:
		return more, true
	case bool:
		return nil, more
	}
	return nil, false
}

// SchemaOf returns the schema of one version in a CRD, as the CRD is read live; nil if it
// has none, or keeps every field.
func SchemaOf(crd map[string]any, version string) map[string]any {
	spec, _ := crd["spec"].(map[string]any)
	if spec["preserveUnknownFields"] == true {
		return nil
	}
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		m, ok := v.(map[string]any)
		if !ok || m["name"] != version {
			continue
		}
		schema, _ := m["schema"].(map[string]any)
		root, _ := schema["openAPIV3Schema"].(map[string]any)
		return root
	}
	return nil
}
