package bundle

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// A store holds resources in the form in which they are stored. It never holds
// more than compressAt bytes of plain text: what is larger is stored compressed
// anyway, so it is compressed as it comes.
type store struct {
	resources []fleet.BundleResource
	compress  bool
	size      int // of their JSON
	packed    int // bytes, without base64
}

func (s *store) addFile(name string, data []byte) error {
	if !s.compress && s.size+len(data) >= compressAt && utf8.Valid(data) { // saves a copy
		if err := s.compressAll(); err != nil {
			return err
		}
	}
	r, err := content.Resource(name, data, s.compress)
	if err != nil {
		return err
	}
	s.putResource(r)
	if !s.compress && s.size >= compressAt {
		return s.compressAll()
	}
	return nil
}

func (s *store) putResource(r fleet.BundleResource) {
	s.resources = append(s.resources, r)
	s.size += resourceSize(r)
	if r.Encoding == fleet.EncodingPlain {
		s.packed += len(r.Content)
		return
	}
	s.packed += base64.StdEncoding.DecodedLen(len(r.Content))
}

// compressAll compresses what is there and what will come.
func (s *store) compressAll() error {
	before := s.resources
	*s = store{compress: true}
	for _, r := range before {
		if r.Encoding == fleet.EncodingPlain {
			var err error
			if r, err = content.Resource(r.Name, []byte(r.Content), true); err != nil {
				return err
			}
		}
		s.putResource(r)
	}
	return nil
}

// readFiles reads all files into the store.
func (a *assembly) readFiles() bool {
	slices.SortFunc(a.files, func(x, y file) int { return strings.Compare(x.name, y.name) })
	a.store.compress = a.o.Compress
	for i, f := range a.files {
		data, err := f.bytes(a.o.Limits.FileBytes)
		if err == nil {
			err = a.store.addFile(f.name, data)
		}
		if err != nil {
			a.addFinding(finding.Finding{Path: path.Join(a.dir.Path, f.name), Severity: finding.Error, Rule: finding.RuleFile, Message: "cannot be read: " + causeOf(err).Error()})
			return false
		}
		if a.store.packed > a.o.Limits.StoredBytes {
			a.tooMuch(i)
			return false
		}
	}
	return true
}

func (a *assembly) tooMuch(at int) {
	a.addFinding(finding.Finding{
		Path: a.dir.Path, Severity: finding.Error, Rule: finding.RuleTooLarge,
		Message: fmt.Sprintf("the bundle's files have more than %d KiB, compressed; that is the most that can be stored (%d of %d files fit)",
			a.o.Limits.StoredBytes>>10, at, len(a.files)),
		Hint: "leave files out with .fleetignore, or split the directory",
	})
}

// addResources puts the resources into a bundle that is otherwise complete. From
// compressAt bytes of JSON on all of them are compressed.
func (a *assembly) addResources(b *fleet.Bundle) error {
	raw, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if !a.store.compress && len(raw)+len(`"resources":[],`)-1+a.store.size >= compressAt {
		if err := a.store.compressAll(); err != nil {
			return err
		}
	}
	b.Spec.Resources = a.store.resources
	return nil
}

// resourceSize is how long the JSON of a resource is in a list, with the comma.
func resourceSize(r fleet.BundleResource) int {
	size := len("{},")
	for _, field := range []struct{ key, value string }{{"name", r.Name}, {"content", r.Content}, {"encoding", r.Encoding}} {
		if field.value != "" {
			size += len(`"":"",`) + len(field.key) + textSize(field.value)
		}
	}
	if size > len("{},") {
		size-- // no comma after the last
	}
	return size
}

// textSize is how long a text is in JSON as encoding/json writes it, without
// the quotes.
func textSize(s string) int {
	size := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			i++
			switch {
			case c == '"', c == '\\', c == '\b', c == '\f', c == '\n', c == '\r', c == '\t':
				size += 2
			case c < ' ', c == '<', c == '>', c == '&':
				size += len(`\u0000`)
			default:
				size++
			}
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		if r == utf8.RuneError && n == 1 || r == '\u2028' || r == '\u2029' {
			size += len(`\u0000`)
			continue
		}
		size += n
	}
	return size
}
