package release

import (
	"fmt"
	"regexp"
)

// MissingValues returns the message of ReasonNoValues: kind is ConfigMap or Secret, what
// says what is missing of the object.
func MissingValues(kind, namespace, name, what string) string {
	return fmt.Sprintf("helm.valuesFrom: %s %q in namespace %q %s", kind, name, namespace, what)
}

// MissingNamespace returns the message of ReasonNoNamespace.
func MissingNamespace(name string) string {
	return fmt.Sprintf("namespace %q does not exist, and the bundle must not create it (createNamespace: false)", name)
}

// An Absence is an object that a user or a program has to create on a cluster before a
// release can be applied.
type Absence struct {
	Kind, Namespace, Name string // a Namespace has no Namespace
	// Exists reports that the object is there, and lacks the key with the values.
	Exists bool
}

var (
	missingValues    = regexp.MustCompile(`^helm\.valuesFrom: ([A-Za-z]+) "([^"]+)" in namespace "([^"]+)" (does not exist|has no key)`)
	missingNamespace = regexp.MustCompile(`^namespace "([^"]+)" does not exist, and the bundle must not create it`)
)

// ParseAbsence returns what a message of MissingValues or MissingNamespace is about. found is
// false for every other message.
func ParseAbsence(message string) (a Absence, found bool) {
	if m := missingValues.FindStringSubmatch(message); m != nil {
		return Absence{Kind: m[1], Namespace: m[3], Name: m[2], Exists: m[4] == "has no key"}, true
	}
	if m := missingNamespace.FindStringSubmatch(message); m != nil {
		return Absence{Kind: "Namespace", Name: m[1]}, true
	}
	return Absence{}, false
}
