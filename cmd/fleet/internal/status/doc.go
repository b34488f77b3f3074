// Package status shows a fleet on one screen, for fleet status.
package status
