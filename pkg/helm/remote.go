package helm

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// ErrRemote is in the error of Render, Install and Upgrade for a kustomization, or
// a values.schema.json, that names something outside of its bundle: kustomize and
// Helm would download it, read it from the disk, or run git, wherever the agent can
// reach.
var ErrRemote = errors.New("it is not in the bundle, and clusters download nothing; put it into the repository")

// ErrProgram is in the error of Render, Install and Upgrade for a kustomization
// that has kustomize start the program helm.
var ErrProgram = errors.New("kustomize would start the program helm, and clusters start no programs; name the chart in fleet.yaml with helm.chart")

// ErrComputed is in the error of Render, Install and Upgrade for a kustomization
// that changes configurations of generators or transformers: what they load is
// known only when kustomize loads it.
var ErrComputed = errors.New("a kustomization of generators, transformers or validators may have only resources; write their configurations out")

var (
	userAt   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*@`)
	schemes  = regexp.MustCompile(`^(https?|ssh|file)://`)
	userInfo = regexp.MustCompile(`//[^/@]*@`)
)

// isRemote reports whether kustomize takes a text for something to download or
// to clone, as it decides that itself (api/internal/loader, api/internal/git).
func isRemote(text string) bool {
	if u, err := url.Parse(text); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return true
	}
	text = strings.TrimPrefix(strings.ToLower(text), "git::")
	return schemes.MatchString(text) || userAt.MatchString(text) ||
		strings.HasPrefix(text, "github.com/") || strings.HasPrefix(text, "github.com:")
}

// asPath is a path in a form that no version of kustomize can take for an
// address: one that has a character of addresses begins with a dot or a slash.
func asPath(text string) string {
	if !strings.ContainsAny(text, ":@") || strings.HasPrefix(text, ".") || strings.HasPrefix(text, "/") {
		return text
	}
	return "./" + text
}

// withoutUser is an address without user name and password.
func withoutUser(address string) string { return userInfo.ReplaceAllString(address, "//") }
