// Package v1alpha1 is the vocabulary of Fleet: the 14 kinds of the API group
// fleet.cattle.io, their fields, and every label, annotation, state word and
// reason that manager, agent and command line exchange.
//
// It holds data and nothing else: no defaults are applied here, no decision is
// taken. Rules that hold for all kinds:
//
//   - An optional field accepts null, which means the same as leaving it out.
//   - Durations are strings of numbers with a unit ("90s", "1h30m"); units are
//     ns, us, ms, s, m and h. Negative durations are refused where they are
//     validated.
//   - The order of the fields of BundleDeploymentOptions and all that it holds
//     is part of the contract: deployment ids are digests of its JSON. New
//     fields go to the end and are omitted when empty.
//
// +kubebuilder:object:generate=true
// +groupName=fleet.cattle.io
package v1alpha1
