// Package bundlediff shows what differs on clusters from what was deployed, for fleet bundlediff.
package bundlediff
