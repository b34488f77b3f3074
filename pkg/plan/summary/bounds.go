package summary

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// Every client that watches an object reads its status, and the manager writes it while a
// rollout runs. So it stays small whatever fails: counts are exact; lists give examples.
// All in bytes of JSON.
const (
	// entryBytes is how much one entry of nonReadyResources takes at most.
	entryBytes = 2 << 10
	// partitionBytes is how much the entries of all partitions of a Bundle take.
	partitionBytes = 20 << 10
	// textBytes is how much one text in it takes where not all of them fit: a patch, or
	// all reasons of one object.
	textBytes = 300
	// objectBytes is the part of an entry that its message leaves for objects.
	objectBytes = 600
	// listedBytes is how much status.resources of a repository takes with more
	// than maxClusters clusters.
	listedBytes = 20 << 10
	// completeBytes is the same with fewer: etcd takes 1.5 MiB.
	completeBytes = 512 << 10
	// countsBytes is how much perClusterResourceCounts takes with more than
	// maxClusters clusters.
	countsBytes = 16 << 10
)

// NonReadyResource returns a deployment in a list of those that are not ready. Its objects
// are left out from the end so that it takes 2 KiB at most. The message is that of a
// condition: it takes most of the room. Where not all objects fit with their texts, each
// text is cut to textBytes.
func NonReadyResource(name string, d *Deployment) fleet.NonReadyResource {
	return entryWithin(entryBytes, name, d)
}

// entryWithin is NonReadyResource with another limit.
func entryWithin(limit int, name string, d *Deployment) fleet.NonReadyResource {
	out := fleet.NonReadyResource{Name: name, State: d.State}
	room := limit - sizeOf(out) - len(`,"message":"","modifiedStatus":[],"nonReadyStatus":[]`)
	out.Message = fitJSON(message(d.Message), room-min(objectBytes, limit/2))
	room -= sizeOf(out.Message) - len(`""`)
	if !listObjects(&out, d, room, condition.MessageLimit) {
		listObjects(&out, d, room, textBytes)
	}
	return out
}

// listObjects lists the objects of a deployment in an entry that has room bytes left for
// them, each text with at most texts bytes. It reports whether all objects fit.
func listObjects(out *fleet.NonReadyResource, d *Deployment, room, texts int) bool {
	out.ModifiedStatus, out.NonReadyStatus = nil, nil
	for i := range d.Modified {
		m := d.Modified[i]
		m.Patch, m.Changes = shortenText(m.Patch, texts), nil // the deployment itself has them
		if room -= sizeOf(m) + 1; room < 0 {
			return false
		}
		out.ModifiedStatus = append(out.ModifiedStatus, m)
	}
	for i := range d.NonReady {
		n := d.NonReady[i]
		n.Summary.Message = cutAll(n.Summary.Message, texts)
		if room -= sizeOf(n) + 1; room < 0 {
			return false
		}
		out.NonReadyStatus = append(out.NonReadyStatus, n)
	}
	return true
}

// message is condition.Message of a text that may be very long.
func message(text string) string {
	const enough = 8 * condition.MessageLimit
	return condition.Message(text[:min(enough, len(text))])
}

// fitJSON is a message that takes at most room bytes of JSON.
func fitJSON(text string, room int) string {
	for n := sizeOf(text) - len(`""`); n > room; n = sizeOf(text) - len(`""`) {
		text = condition.Cut(text, max(utf8.RuneCountInString(text)*room/n, 1)-1)
	}
	return text
}

// sizeOf is how many bytes of JSON something takes. It is called for what is
// listed only.
func sizeOf(v any) int {
	raw, err := json.Marshal(v)
	if err != nil {
		return entryBytes
	}
	return len(raw)
}

// shortenText is a text of at most limit bytes, which ends at a word if it was cut.
func shortenText(text string, limit int) string {
	for len(text) > limit {
		text = condition.Cut(text, utf8.RuneCountInString(text)*limit/len(text))
	}
	return text
}

// cutAll cuts a list of texts that together take more than limit bytes. The list itself
// is left as it is.
func cutAll(list []string, limit int) []string {
	room := limit
	for _, text := range list {
		room -= len(text)
	}
	if room >= 0 {
		return list
	}
	return []string{shortenText(strings.Join(list, "; "), limit)}
}

// quoted is how many bytes of JSON a text takes at most.
func quoted(text string) int {
	n := len(text) + 2
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c >= utf8.RuneSelf {
			n += 5
		}
	}
	return n
}
