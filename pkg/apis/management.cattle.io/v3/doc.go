// Package v3 is the part of Rancher's API group management.cattle.io that Fleet
// reads, with the exact JSON names of Rancher's own kinds.
//
// The types hold a few fields of many. An object that was read into one of them
// must never be written as a whole, by create or by update: what it does not know
// would be lost, and some fields that have no omitempty would be set to nothing.
// All writes are patches of exactly the fields that change.
//
// Names and meanings come from github.com/rancher/rancher/pkg/apis; Fleet does not
// import it (docs/architecture.md).
//
// +kubebuilder:object:generate=true
package v3
