package helm

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// images are the entries of images in the kustomization of a directory whose name is
// that of no image: it is built without them. Any text is taken as an image, since
// kustomize can be configured where images stand.
func (pr *probe) images(dir string, files []file) []UnmatchedPatch {
	var out []UnmatchedPatch
	for _, base := range konfig.RecognizedKustomizationFileNames() {
		name := path.Join(dir, base)
		data, err := pr.fs.ReadFile(name)
		var k types.Kustomization
		if err != nil || k.Unmarshal(data) != nil || len(k.Images) == 0 || k.Kind == types.ComponentKind {
			continue
		}
		entries := k.Images
		k.Images = nil
		without, err := yaml.Marshal(k)
		if err != nil || pr.fs.WriteFile(name, without) != nil {
			return nil
		}
		texts, images, err := pr.textsOf(dir)
		if pr.fs.WriteFile(name, data) != nil || err != nil {
			return nil
		}
		for i, entry := range entries {
			if !slices.ContainsFunc(texts, func(t string) bool { return isImage(entry.Name, t) }) {
				out = append(out, unmatchedImage(inBundlePath(name), entry.Name, i, images, files))
			}
			texts = append(texts, entry.NewName)
		}
	}
	return out
}

// textsOf are all texts in what the kustomization of a directory builds, and the names of
// its images.
func (pr *probe) textsOf(dir string) (texts, images []string, err error) {
	result, err := build(pr.fs, dir)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range result.Resources() {
		fields, err := r.Map()
		if err != nil {
			return nil, nil, err
		}
		textsIn(fields, "", func(key, text string) {
			texts = append(texts, text)
			if key == "image" {
				images = append(images, imageName(text))
			}
		})
	}
	return texts, images, nil
}

// unmatchedImage returns the finding for an entry of images that changes nothing.
func unmatchedImage(name, image string, index int, images []string, files []file) UnmatchedPatch {
	out := UnmatchedPatch{Place: Place{
		File: name, Text: fmt.Sprintf("the entry of images changes nothing: no image of the resources is called %q", printable.Line(position.ShortName(image))),
	}}
	for _, f := range files {
		if f.name == name {
			out.Line, out.Column = position.Locate(position.Root(f.data), false, "images", index)
		}
	}
	slices.Sort(images)
	images = slices.Compact(images)
	switch near := spelling.Nearest(image, images); {
	case near != "":
		out.Hint = fmt.Sprintf("did you mean %q?", printable.Line(near))
	case len(images) > 0:
		out.Hint = "the images are " + printable.Line(someOf(images))
	}
	return out
}

// isImage reports whether a text is the image that an entry names; kustomize takes names as
// regular expressions.
func isImage(name, text string) bool {
	if text == name || imageName(text) == name {
		return true
	}
	re, err := regexp.Compile("^(?:" + name + ")$")
	return err != nil || re.MatchString(imageName(text))
}

// imageName is an image without tag and digest.
func imageName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if at := strings.LastIndex(image, ":"); at > strings.LastIndex(image, "/") {
		image = image[:at]
	}
	return image
}

// textsIn visits all texts below a value, with the keys that they have.
func textsIn(v any, key string, visit func(key, text string)) {
	switch t := v.(type) {
	case string:
		visit(key, t)
	case []any:
		for _, e := range t {
			textsIn(e, key, visit)
		}
	case map[string]any:
		for k, e := range t {
			textsIn(e, k, visit)
		}
	}
}
