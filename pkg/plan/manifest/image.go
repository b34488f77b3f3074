package manifest

import (
	"fmt"
	"strings"
)

// ImageValues are the values of a chart for an image: repository and tag, as
// charts join them with a colon. An image without a tag gets the chart's own.
// A digest is kept: it is the tag of "name@sha256".
func ImageValues(image string) (map[string]any, error) {
	if image == "" || strings.ContainsAny(image, " \t\n\"'") || strings.HasSuffix(image, ":") || strings.HasPrefix(image, ":") {
		return nil, fmt.Errorf("image %q: want REPOSITORY[:TAG]", image)
	}
	at := strings.LastIndex(image, ":")
	if at < 0 || strings.Contains(image[at:], "/") { // none, or that of a port
		if strings.Contains(image, "@") {
			return nil, fmt.Errorf("image %q: a digest is written @sha256:HEX", image)
		}
		return map[string]any{"repository": image}, nil
	}
	return map[string]any{"repository": image[:at], "tag": image[at+1:]}, nil
}
