// Package logs shows the decisions of an agent, for fleet logs.
package logs
