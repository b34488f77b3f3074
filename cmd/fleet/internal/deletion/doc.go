// Package deletion deletes repos and bundles with what they deployed, for fleet delete.
package deletion
