// Package explain says why a bundle is not Ready on a cluster, for fleet explain.
package explain
