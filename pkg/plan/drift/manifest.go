package drift

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Objects reads the manifest of a release: YAML documents, of which those
// without a kind are skipped.
func Objects(manifest string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		data, err := yaml.YAMLToJSON(doc)
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		o := &unstructured.Unstructured{}
		if !bytes.Contains(data, []byte(`"kind"`)) {
			continue
		}
		if err := o.UnmarshalJSON(data); err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		if o.GetKind() != "" && o.GetName() != "" {
			out = append(out, o)
		}
	}
}
