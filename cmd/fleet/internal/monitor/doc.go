// Package monitor prints snapshots of a fleet, for fleet monitor, and reads them, for fleet
// analyze. Package pkg/plan/monitor decides what a snapshot says.
package monitor
