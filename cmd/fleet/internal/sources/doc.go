// Package sources reads what is deployed: directories, files of Bundles, charts, and contents
// in registries.
package sources
