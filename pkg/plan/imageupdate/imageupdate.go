// Package imageupdate decides what becomes of the tags that ImageScans have found: which
// values of which files of a repository are replaced, when a commit is due, what prevents
// one, and what the status of the GitRepo says. It changes nothing but bytes in memory.
//
// A file says with a comment at a value which image scan the value follows:
//
//	image: nginx:1.25 # {"$imagescan": "web"}
package imageupdate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// maxValueBytes bounds an image with its digest.
const maxValueBytes = 1 << 10

// A Value is what one image scan has found.
type Value struct {
	Scan   string // name of the ImageScan
	Image  string // with its tag
	Tag    string
	Name   string // of the image, with registry and path, without a tag
	Digest string
}

// Values are what the image scans of a GitRepo have found, by tagName.
type Values map[string]Value

// safeValue is a text that is the same in YAML with and without quotes, unless it is a
// number. All images, tags and digests have this form.
var safeValue = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._:/@-]*[A-Za-z0-9._-])?$`)

// ValuesOf returns what image scans have found. It leaves out scans that are suspended,
// are being deleted, or have found nothing yet. Of two scans with one tagName the last by
// name counts. notes say what is odd.
func ValuesOf(scans []*fleet.ImageScan) (values Values, notes []string) {
	values = Values{}
	scans = slices.Clone(scans)
	slices.SortFunc(scans, func(a, b *fleet.ImageScan) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range scans {
		if !isActive(s) || s.Status.LatestImage == "" || s.Spec.TagName == "" {
			continue
		}
		v := Value{
			Scan: s.Name, Image: s.Status.LatestImage, Tag: s.Status.LatestTag,
			Name: s.Status.CanonicalImageName, Digest: s.Status.LatestDigest,
		}
		if text, ok := v.unsafe(); !ok {
			notes = append(notes, fmt.Sprintf("image scan %q is left out: %.100q is no image", s.Name, text))
			continue
		}
		if other, ok := values[s.Spec.TagName]; ok {
			notes = append(notes, fmt.Sprintf("image scans %q and %q have the tagName %q: that of %q counts", other.Scan, s.Name, s.Spec.TagName, s.Name))
		}
		values[s.Spec.TagName] = v
	}
	return values, notes
}

// unsafe returns the first field that is not what it should be.
func (v Value) unsafe() (text string, ok bool) {
	for _, text := range []string{v.Image, v.Tag, v.Name, v.Digest} {
		if text != "" && (len(text) > maxValueBytes || !safeValue.MatchString(text)) {
			return text, false
		}
	}
	return "", true
}

// isActive reports whether a scan counts: suspending one takes it out of the commits too.
func isActive(s *fleet.ImageScan) bool { return !s.Spec.Suspend && s.DeletionTimestamp == nil }

// lookup returns what a marker stands for; ok is false for a name that no scan has, or for
// a part of an image that the scan has not found.
func (v Values) lookup(marker string) (text string, ok bool) {
	name, part, _ := strings.Cut(marker, ":")
	found, ok := v[name]
	if !ok {
		return "", false
	}
	switch part {
	case "":
		text = found.Image
	case "tag":
		text = found.Tag
	case "name":
		text = found.Name
	case "digest":
		if found.Digest != "" {
			text = found.Image + "@" + found.Digest
		}
	}
	return text, text != ""
}
