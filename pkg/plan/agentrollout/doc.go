// Package agentrollout decides what agent each cluster of a fleet gets, and when.
//
// The agent of a cluster is described by its Bundle fleet-agent-<cluster>, which the agent
// deploys over itself. What all agents have in common, the Build, changes with the
// manager's version and settings; it reaches the fleet in waves, each of which waits until
// its agents work as well as the ones before them did. Settings of one Cluster reach that
// cluster at once.
//
// It is pure: times and what was observed are arguments, and decisions carry their reason
// in words. The loop of pkg/agentmanagement acts on them.
package agentrollout
