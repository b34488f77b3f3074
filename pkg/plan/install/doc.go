// Package manifest decides what fleet install prints: how long a token lives,
// which address and authority agents are given, what charts are told, and in
// which order objects stand in a file that is complete by itself.
//
// It is pure: kubeconfigs, files and rendered charts are arguments.
package install
