// Package workspace lists and makes workspaces and moves clusters between them, for fleet
// workspace.
package workspace
