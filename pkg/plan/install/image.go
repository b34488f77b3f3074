package install

import (
	"fmt"
	"regexp"
	"strings"
)

// The parts of an image reference, as Kubernetes and container runtimes read it.
var (
	imageHost   = regexp.MustCompile(`^(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/`)
	imageName   = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$`)
	imageTag    = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}$`)
	imageDigest = regexp.MustCompile(`^(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`)
)

// ImageValues returns the values of a chart for an image: repository and tag, as charts
// join them with a colon. An image without a tag gets the chart's own. A digest is kept: it
// is the tag of "name@sha256". An image that no runtime can pull is an error.
func ImageValues(image string) (map[string]any, error) {
	if why := wrongImage(image); why != "" {
		return nil, fmt.Errorf("image %q: %s", image, why)
	}
	at := strings.LastIndex(image, ":")
	if at < 0 || strings.Contains(image[at:], "/") { // none, or that of a port
		return map[string]any{"repository": image}, nil
	}
	return map[string]any{"repository": image[:at], "tag": image[at+1:]}, nil
}

// wrongImage says why a text is no image reference; empty for one that is.
func wrongImage(image string) string {
	if scheme, _, found := strings.Cut(image, "://"); found {
		return "an image is written without " + scheme + "://"
	}
	name, digest, pinned := strings.Cut(image, "@")
	name = name[len(imageHost.FindString(name)):]
	name, tag, tagged := strings.Cut(name, ":")
	switch {
	case pinned && !imageDigest.MatchString(digest):
		return "a digest is written @sha256: and 64 hexadecimal digits"
	case imageName.MatchString(strings.ToLower(name)) && !imageName.MatchString(name):
		return "the name of an image is in lower case"
	case !imageName.MatchString(name) || strings.ContainsAny(tag, ":/"):
		return "want [HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST]"
	case tagged && !imageTag.MatchString(tag):
		return "the tag has letters, digits and . _ - only, at most 128, and begins with none of . and -"
	}
	return ""
}
