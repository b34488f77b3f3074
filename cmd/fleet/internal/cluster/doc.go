// Package cluster looks after clusters, their agents and credentials, for fleet cluster.
package cluster
