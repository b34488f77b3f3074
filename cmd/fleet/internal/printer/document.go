package printer

// DocumentVersion is the apiVersion of the documents that commands print.
// Fields are only ever added; docs/cli holds a JSON schema of each kind.
const DocumentVersion = "cli.fleet.cattle.io/v1"

// Document begins every document.
type Document struct {
	// APIVersion is cli.fleet.cattle.io/v1.
	APIVersion string `json:"apiVersion"`
	// Kind is the kind of the document.
	Kind string `json:"kind"`
}

// NewDocument is the head of a document of a kind.
func NewDocument(kind string) Document { return Document{DocumentVersion, kind} }
