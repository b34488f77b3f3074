// Package naming makes the names of all that Fleet creates. This version and those that
// were installed before it find objects by these names, so none of them may change.
package naming

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// labelLimit is the longest DNS label, and with it the longest name.
const labelLimit = 63

var (
	label     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	unusual   = regexp.MustCompile(`[^a-z0-9-]`)
	separator = regexp.MustCompile(`[^a-z0-9]+`)
)

// Limit cuts s to n bytes. It replaces the end by 5 digits of a digest of the whole, if n
// leaves room for them (n > 6).
func Limit(s string, n int) string {
	if len(s) <= n {
		return s
	}
	if n <= 6 {
		return s[:max(n, 0)]
	}
	head := s[:n-6]
	if !strings.HasSuffix(head, "-") {
		head += "-"
	}
	return head + md5Hex(s, 5)
}

// ReleaseName makes a name for a bundle, and for its Helm release, of any text:
// a DNS label of at most 53 characters. Texts that only differ in characters
// that a label cannot have get different names.
func ReleaseName(s string) string {
	name := strings.ReplaceAll(s, "/", "-")
	if unusual.MatchString(name) {
		name += "-" + md5Hex(name, 8)
	}
	name = strings.Trim(separator.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if !label.MatchString(name) {
		return md5Hex(s, 24)
	}
	return Limit(name, fleet.ReleaseNameLimit)
}

// SafeConcat joins parts with dashes, and shortens what gets longer than 63
// characters to 63, with a digest of the whole at the end.
func SafeConcat(parts ...string) string {
	whole := strings.Join(parts, "-")
	if len(whole) <= labelLimit {
		return whole
	}
	sum := sha256Hex(whole)
	if c := whole[56]; c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
		return whole[:57] + "-" + sum[:5]
	}
	return whole[:56] + "-" + sum[:6]
}

// KeyHash returns a digest of the first 100 bytes of s, in 12 digits.
func KeyHash(s string) string {
	return sha256Hex(s[:min(len(s), 100)])[:12]
}

// SystemRegistrationNamespace returns where credentials for agents are handed over, for a
// manager in the given namespace.
func SystemRegistrationNamespace(systemNamespace string) string {
	return strings.TrimSuffix(systemNamespace, "-system") + "-clusters-system"
}

// ObjectSetID returns the name of the set that all objects of a bundle belong to.
// agentScope distinguishes two agents in one cluster; it is empty if there is only one. All
// bundles whose name begins with "fleet-agent" have the same set, as in rancher/fleet: a
// set does not identify a bundle.
func ObjectSetID(bundleID, agentScope string) string {
	parts := []string{"default", bundleID}
	if strings.HasPrefix(bundleID, "fleet-agent") {
		parts = []string{"fleet-agent-bootstrap"}
	}
	if agentScope != "" {
		parts = append(parts, agentScope)
	}
	return SafeConcat(parts...)
}

// ObjectSetHash returns the value of the label that objects of a set bear.
func ObjectSetHash(setID string) string {
	sum := sha1.Sum([]byte(setID))
	return hex.EncodeToString(sum[:])
}

// Bucket returns the bucket of a cluster, by the namespace of its deployments: two hex
// digits.
func Bucket(clusterNamespace string) string {
	return sha256Hex(clusterNamespace)[:2]
}

// OwnerBucket returns the bucket of a bundle's owner: two hex digits. owner is the name of
// the GitRepo, else of the HelmOp, else of the Bundle itself.
func OwnerBucket(namespace, owner string) string {
	return sha256Hex(namespace + "/" + owner)[:2]
}

// StatusHash returns the digest of a field of a Cluster's spec, for its status: hex SHA-224
// of the JSON. It fails for what has no JSON.
func StatusHash(field any) (string, error) {
	raw, err := json.Marshal(field)
	if err != nil {
		return "", fmt.Errorf("digest of %T: %w", field, err)
	}
	sum := sha256.Sum224(raw)
	return hex.EncodeToString(sum[:]), nil
}

// UserKeys returns the labels or annotations that users gave an object: those
// that neither Rancher, Fleet nor kubectl keep for themselves.
func UserKeys(all map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range all {
		if !strings.Contains(k, "cattle.io/") && !strings.HasPrefix(k, "kubectl.kubernetes.io/") {
			out[k] = v
		}
	}
	return out
}

func md5Hex(s string, digits int) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])[:digits]
}

func sha256Hex(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
