package view

import (
	"slices"
	"strings"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// OwnLabels returns the labels that people gave a Cluster, as "a=b,c=d": without those of
// Fleet, Rancher and Kubernetes, and without one that repeats the name.
func OwnLabels(c *fleet.Cluster) string {
	var out []string
	for k, v := range c.Labels {
		domain, _, qualified := strings.Cut(k, "/")
		if qualified && (isWithin(domain, "cattle.io") || isWithin(domain, "kubernetes.io") || isWithin(domain, "k8s.io")) {
			continue
		}
		if k == "name" && v == c.Name {
			continue
		}
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

func isWithin(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

// Expiry says when a token ends: "never", "in 3h" or "3h ago".
func Expiry(t *fleet.ClusterRegistrationToken, now time.Time) string {
	switch at := t.Status.Expires; {
	case t.Spec.TTL == nil || t.Spec.TTL.Duration <= 0:
		return "never"
	case at == nil:
		return ""
	case at.After(now):
		return "in " + Age(at.Sub(now))
	default:
		return Age(now.Sub(at.Time)) + " ago"
	}
}
