// Package dryrun renders a directory for one cluster, for fleet test.
package dryrun
