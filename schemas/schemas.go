// Package schemas holds the JSON schemas for people's editors, for programs that
// print them. go run ./hack/generate writes the files.
package schemas

import _ "embed"

// FleetYAML is the JSON schema of fleet.yaml.
//
//go:embed fleet.yaml.json
var FleetYAML []byte
