package chart_test

import (
	"sort"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// helmTags converts a registry's tags as Helm's registry client does: strict
// versions, the highest first.
func helmTags(tags []string) []string {
	var all []*semver.Version
	for _, tag := range tags {
		if v, err := semver.StrictNewVersion(strings.ReplaceAll(tag, "_", "+")); err == nil {
			all = append(all, v)
		}
	}
	sort.Sort(sort.Reverse(semver.Collection(all)))
	var list []string
	for _, v := range all {
		list = append(list, v.String())
	}
	return list
}
