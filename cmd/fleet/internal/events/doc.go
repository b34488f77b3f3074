// Package events shows what happened to objects, for fleet events.
package events
