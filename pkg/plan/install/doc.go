// Package install decides what fleet install prints: how long a token lives, which address
// and authority agents get, which values charts get, and in which order objects stand in a
// file that is complete by itself.
//
// It is pure: kubeconfigs, files and rendered charts are arguments.
package install
