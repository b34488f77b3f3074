// Package support lists what this version of Fleet accepts and does not implement yet,
// so that conditions can say so.
package support

import (
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// UnsupportedFields lists the fields that are set in an object and that nothing acts on
// yet, as paths below spec, sorted. Other kinds than Fleet's have none.
func UnsupportedFields(obj any) []string {
	var out []string
	switch o := obj.(type) {
	case *fleet.Bundle:
		out = bundle(&o.Spec)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ImageScansOff says that commits of image scans have no effect where image scanning is
// switched off; it is empty for a GitRepo that asks for none.
func ImageScansOff(spec *fleet.GitRepoSpec) string {
	if spec.ImageScanCommit == nil {
		return ""
	}
	return "imageScanCommit has no effect: image scanning is switched off in this Fleet"
}

// NeedsImageScans says that a GitRepo needs image scanning, where it is not known whether
// that is switched on; it is empty for a GitRepo that does not.
func NeedsImageScans(spec *fleet.GitRepoSpec) string {
	if spec.ImageScanCommit == nil {
		return ""
	}
	return "imageScanCommit needs image scanning, which is switched off by default"
}

// ScanningOff says why nothing acts on an ImageScan where image scanning is off.
const ScanningOff = "image scanning is switched off in this Fleet: the chart value imagescan.enabled switches it on"

// SchedulesOff says why nothing acts on a Schedule where Schedules are switched off.
const SchedulesOff = "schedules are switched off in this Fleet: EXPERIMENTAL_SCHEDULES=true in the environment of fleet-controller switches them on"

// Message describes in words the UnsupportedFields of an object; it is empty where there are none.
func Message(missing []string) string {
	switch len(missing) {
	case 0:
		return ""
	case 1:
		return missing[0] + " is accepted, but this version does not act on it yet"
	}
	return strings.Join(missing, ", ") + " are accepted, but this version does not act on them yet"
}

// BlockReason says why this version must not deploy a Bundle at all: the Bundle has a setting
// that would limit it and that has no effect. It is empty for a Bundle that can be
// deployed.
func BlockReason(spec *fleet.BundleSpec) string {
	for i := range spec.Targets {
		if spec.Targets[i].AllowedTargetNamespaceSelector != nil {
			return "allowedTargetNamespaceSelector has no effect in targets, so nothing new is deployed; set it for the whole Bundle"
		}
	}
	return ""
}
