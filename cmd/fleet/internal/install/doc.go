// Package install prints manifests of the manager and of agents, and lets new clusters in, for
// fleet install and fleet cluster join.
package install
