// Package apply writes the Bundles of directories and files, for fleet apply.
package apply
