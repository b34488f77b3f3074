// Package target shows which deployments a Bundle would get, for fleet target.
package target
