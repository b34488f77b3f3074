// Package proxy has what the packages that open connections share about HTTP proxies.
package proxy

import (
	"net/http"
	"net/url"
)

// Host returns host and port of the proxy that choose names for a URL, for messages: never
// its user name and password. It is empty if there is none. choose may be nil.
func Host(choose func(*http.Request) (*url.URL, error), to *url.URL) string {
	if choose == nil {
		return ""
	}
	at, err := choose(&http.Request{URL: to})
	if err != nil || at == nil {
		return ""
	}
	return at.Host
}
