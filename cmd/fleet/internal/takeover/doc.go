// Package takeover compares and moves what another manager deploys, for fleet takeover.
package takeover
