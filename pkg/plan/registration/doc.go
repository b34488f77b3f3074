// Package registration decides how clusters join a fleet and what they are
// given: what a registration token may do, which Cluster a request gets, what
// the agent of a Cluster is granted, which namespace a Cluster owns, how the
// agent of the manager's own cluster is installed, and what has to go.
//
// It is pure: times, random words and what exists are arguments, and decisions
// carry their reason in words. The loops of pkg/agentmanagement act on them.
package registration
