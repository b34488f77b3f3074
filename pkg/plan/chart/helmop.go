package chart

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A bundle of a HelmOp holds no files: its options name a chart, which is fetched when the
// bundle is deployed.

// RequestOf returns what Helm options ask for.
func RequestOf(o *fleet.HelmOptions) Request {
	if o == nil {
		return Request{}
	}
	return Request{Repo: o.Repo, Chart: o.Chart, Version: o.Version}
}

// KeyOf returns a digest that differs for different lists of requests.
func KeyOf(list []Request) string {
	h := sha256.New()
	for _, r := range list {
		fmt.Fprintf(h, "%q %q %q\n", r.Repo, r.Chart, r.Version)
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// HelmOpCredentials returns the credentials for the chart of a HelmOp: the data of its
// Secret, nil where it names none, with what the options add. The Secret's own CA bundle
// takes precedence over that of the options.
//
// Errors are those of CredentialsOf.
func HelmOpCredentials(data map[string][]byte, o fleet.BundleHelmOptions) (Credentials, error) {
	c, err := CredentialsOf(data)
	if err != nil {
		return Credentials{}, err
	}
	if len(c.CABundle) == 0 {
		c.CABundle = o.CABundle
	}
	c.InsecureSkipVerify = c.InsecureSkipVerify || o.InsecureSkipTLSverify
	if why := c.mistake(); why != "" {
		return Credentials{}, permanentf(ReasonInvalidCredentials, "helmOpOptions cannot be used: %s", why)
	}
	return c, nil
}

// HelmOpAccess sends credentials to where the charts of a HelmOp are, and nowhere else. The
// user names both in the HelmOp, so no regular expression is needed.
func HelmOpAccess(c Credentials, list []Request) Access {
	var urls []string
	for _, r := range list {
		source := r.Repo
		if source == "" {
			source = r.Chart
		}
		if source != "" {
			urls = append(urls, regexp.QuoteMeta(withoutUser(source)))
		}
	}
	return Access{Default: c, URLs: strings.Join(urls, "|")}
}

func withoutUser(source string) string {
	u, err := url.Parse(source)
	if err != nil || u.User == nil {
		return source
	}
	u.User = nil
	return u.String()
}
