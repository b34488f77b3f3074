// Package v1 is the part of Rancher's API group provisioning.cattle.io that Fleet
// reads, with the exact JSON names of Rancher's own kinds. As with those of
// management.cattle.io, objects of these types are never written as a whole.
//
// +kubebuilder:object:generate=true
package v1
