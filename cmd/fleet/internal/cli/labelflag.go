package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// labelSet is a flag with labels, KEY=VALUE,..., which may be repeated. It refuses what
// Kubernetes does not accept as a label.
type labelSet struct{ into *map[string]string }

// LabelsVar adds a flag with labels. letter may be empty.
func LabelsVar(fs *pflag.FlagSet, into *map[string]string, name, letter, usage string) {
	fs.VarP(labelSet{into}, name, letter, usage)
}

// String returns the labels as they are given.
func (l labelSet) String() string {
	if l.into == nil {
		return ""
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(*l.into)) {
		parts = append(parts, key+"="+(*l.into)[key])
	}
	return strings.Join(parts, ",")
}

// Type returns what help calls the value.
func (l labelSet) Type() string { return "k=v,..." }

// Set reads labels and adds them to those that are there.
func (l labelSet) Set(text string) error {
	if text == "" {
		return nil
	}
	add := map[string]string{}
	for i, part := range strings.Split(text, ",") {
		if part == "" {
			return fmt.Errorf("nothing stands %s", besideComma(i, text))
		}
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return fmt.Errorf("%q has no =, want KEY=VALUE", part)
		}
		if err := checkLabel(key, value); err != nil {
			return err
		}
		add[key] = value
	}
	if *l.into == nil {
		*l.into = map[string]string{}
	}
	maps.Copy(*l.into, add)
	return nil
}

// besideComma says where part i of a list is empty.
func besideComma(i int, text string) string {
	switch {
	case i == 0:
		return "before the first comma"
	case i == strings.Count(text, ","):
		return "after the last comma"
	}
	return fmt.Sprintf("between commas %d and %d", i, i+1)
}

// checkLabel says which part of a label Kubernetes refuses, and why.
func checkLabel(key, value string) error {
	if key == "" {
		return fmt.Errorf("%q has no key, want KEY=VALUE", "="+value)
	}
	if why := validation.IsQualifiedName(key); len(why) > 0 {
		return fmt.Errorf("key %q: %s", key, withoutExamples(why[0]))
	}
	if why := validation.IsValidLabelValue(value); len(why) > 0 {
		return fmt.Errorf("value %q of %q: %s", value, key, withoutExamples(why[0]))
	}
	return nil
}

// withoutExamples is a message of Kubernetes' validation without its examples and
// its regular expression.
func withoutExamples(message string) string {
	text, _, _ := strings.Cut(message, " (e.g.")
	return text
}
