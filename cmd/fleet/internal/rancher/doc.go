// Package rancher connects to the API of a Rancher server.
package rancher
