package helm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// ErrRemote is in the error of Render, Install and Upgrade for a kustomization
// that names something outside of its bundle: kustomize itself would download
// it, or run git, wherever the agent can reach.
var ErrRemote = errors.New("it is not in the bundle, and clusters download nothing; put it into the repository")

// kustomizeFiles are the names under which kustomize finds a kustomization.
var kustomizeFiles = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// loading are the keys of kustomizations, and of what configures their
// generators and transformers, whose values kustomize loads files or
// directories by. The value tells whether these configure something in turn.
var loading = map[string]bool{
	"resources": false, "bases": false, "components": false, "crds": false, "configurations": false, "openapi": false,
	"patches": false, "patchesStrategicMerge": false, "patchesJson6902": false, "replacements": false,
	"path": false, "paths": false, "files": false, "env": false, "envs": false,
	"targetFilePath": false, "argsFromFile": false, "valuesFile": false, "additionalValuesFiles": false,
	"generators": true, "transformers": true, "validators": true,
}

// scan looks through the kustomizations of a bundle for what is elsewhere.
type scan struct {
	files map[string][]byte
	seen  map[string]bool
}

// local returns an error if the kustomization in a directory, or one that it
// uses, names anything that kustomize would download or clone.
func local(files []file, dir string) error {
	s := scan{files: map[string][]byte{}, seen: map[string]bool{}}
	for _, f := range files {
		s.files[path.Clean(f.name)] = f.data
	}
	return s.follow(path.Clean(dir), false)
}

// follow looks into a directory with a kustomization, or into a file.
func (s scan) follow(name string, configures bool) error {
	key := fmt.Sprint(configures, " ", name)
	if s.seen[key] {
		return nil
	}
	s.seen[key] = true
	for _, base := range kustomizeFiles {
		if data, ok := s.files[path.Join(name, base)]; ok {
			if err := s.documents(data, path.Join(name, base), configures); err != nil {
				return err
			}
		}
	}
	if data, ok := s.files[name]; ok && configures {
		return s.documents(data, name, configures)
	}
	return nil
}

func (s scan) documents(data []byte, name string, configures bool) error {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		text, err := reader.Read()
		if err != nil {
			return nil // the end; kustomize itself reports what it cannot read
		}
		doc := map[string]any{}
		if yaml.Unmarshal(text, &doc) != nil {
			continue
		}
		if err := s.keys(doc, name, configures); err != nil {
			return err
		}
	}
}

// keys looks for values that kustomize loads by, anywhere in a document.
func (s scan) keys(v any, name string, configures bool) error {
	switch t := v.(type) {
	case map[string]any:
		for key, e := range t {
			var err error
			if more, ok := loading[key]; ok {
				err = s.texts(e, name, configures || more)
			} else {
				err = s.keys(e, name, configures)
			}
			if err != nil {
				return err
			}
		}
	case []any:
		for _, e := range t {
			if err := s.keys(e, name, configures); err != nil {
				return err
			}
		}
	}
	return nil
}

// texts judges what a loading key holds.
func (s scan) texts(v any, name string, configures bool) error {
	switch t := v.(type) {
	case string:
		_, after, _ := strings.Cut(t, "=") // files may be given as name=path
		if at := slices.IndexFunc([]string{t, after}, elsewhere); at >= 0 {
			return fmt.Errorf("%s: %q: %w", name, withoutUser([]string{t, after}[at]), ErrRemote)
		}
		if configures && strings.Contains(t, "\n") {
			return s.documents([]byte(t), name, configures)
		}
		return s.follow(path.Join(path.Dir(name), t), configures)
	case []any:
		for _, e := range t {
			if err := s.texts(e, name, configures); err != nil {
				return err
			}
		}
		return nil
	}
	return s.keys(v, name, configures)
}

var (
	userAt   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*@`)
	schemes  = regexp.MustCompile(`^(https?|ssh|file)://`)
	userInfo = regexp.MustCompile(`//[^/@]*@`)
)

// elsewhere tells whether kustomize takes a text for something to download or
// to clone, as it decides that itself (api/internal/loader, api/internal/git).
func elsewhere(text string) bool {
	if u, err := url.Parse(text); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return true
	}
	text = strings.TrimPrefix(strings.ToLower(text), "git::")
	return schemes.MatchString(text) || userAt.MatchString(text) ||
		strings.HasPrefix(text, "github.com/") || strings.HasPrefix(text, "github.com:")
}

// withoutUser is an address without user name and password.
func withoutUser(address string) string { return userInfo.ReplaceAllString(address, "//") }
