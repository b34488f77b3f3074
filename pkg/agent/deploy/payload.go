package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
)

// A versionPayload is all that a deployment is made of.
type versionPayload struct {
	id      string // of the content
	content []byte // the gzip of its files
	values  []byte // Helm values as JSON; nil if there are none
	copies  []helm.Copy
}

// A header stands before the content of a payload that is more than what its
// deployment id says: the content has an id of its own, or copies go along.
type header struct {
	ID      string `json:"id"`
	Content int    `json:"content"` // bytes; what comes after are the copies
}

// copiesLimit is how large the copies of a payload may be, in bytes.
const copiesLimit = 16 << 20

// pack returns the payload in the form of the store. id is the content in the
// deployment id; a payload with only that content needs no header.
func (p versionPayload) pack(id string) (store.Payload, error) {
	if p.id == id && len(p.copies) == 0 {
		return store.Payload{Content: p.content, Values: p.values}, nil
	}
	head, err := json.Marshal(header{ID: p.id, Content: len(p.content)})
	if err != nil {
		return store.Payload{}, fmt.Errorf("pack what is deployed: %w", err)
	}
	copies, err := json.Marshal(p.copies)
	if err != nil {
		return store.Payload{}, fmt.Errorf("pack copies: %w", err)
	}
	data := append(append(head, '\n'), p.content...)
	return store.Payload{Content: append(data, content.Compress(copies)...), Values: p.values}, nil
}

var errPayload = errors.New("what the agent kept of the deployment is damaged")

// unpack reads what pack has written, and verifies that it is complete.
func unpack(id string, kept store.Payload) (versionPayload, error) {
	p := versionPayload{id: id, content: kept.Content, values: kept.Values}
	if bytes.HasPrefix(kept.Content, []byte("{")) {
		line, rest, _ := bytes.Cut(kept.Content, []byte("\n"))
		var head header
		if err := json.Unmarshal(line, &head); err != nil || head.Content < 0 || head.Content > len(rest) {
			return p, errPayload
		}
		p.id, p.content = head.ID, rest[:head.Content]
		copies, err := content.Decompress(rest[head.Content:], copiesLimit)
		if err != nil || json.Unmarshal(copies, &p.copies) != nil {
			return p, errPayload
		}
	}
	if id != "" && p.id != id {
		return p, errPayload
	}
	return p, content.Check(p.id, p.content)
}
