package oci_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func TestStorageOf(t *testing.T) {
	tests := map[string]struct {
		kind        string // default: the right one
		data        map[string]string
		write, read oci.Registry
		err         string
		why         string
	}{
		"Least": {data: map[string]string{"reference": "reg/x"},
			write: oci.Registry{Reference: "reg/x"}, read: oci.Registry{Reference: "reg/x"}, why: "only the reference is required"},
		"All": {data: map[string]string{"reference": "oci://reg/x", "username": "u", "password": "p", "agentUsername": "au", "agentPassword": "ap",
			"basicHTTP": "true", "insecureSkipTLS": "1", "cacerts": "PEM"},
			write: oci.Registry{Reference: "oci://reg/x", Username: "u", Password: "p", BasicHTTP: true, InsecureSkipVerify: true, CABundle: []byte("PEM")},
			read:  oci.Registry{Reference: "oci://reg/x", Username: "au", Password: "ap", BasicHTTP: true, InsecureSkipVerify: true, CABundle: []byte("PEM")},
			why:   "the agent pulls with its own credentials"},
		"AgentPasswordOnly": {data: map[string]string{"reference": "r/x", "username": "u", "password": "p", "agentPassword": "ap"},
			write: oci.Registry{Reference: "r/x", Username: "u", Password: "p"}, read: oci.Registry{Reference: "r/x", Username: "u", Password: "ap"},
			why: "each of the two stands in for itself"},
		"Legacy": {data: map[string]string{"reference": "r/x", "insecure": "true"},
			write: oci.Registry{Reference: "r/x", InsecureSkipVerify: true}, read: oci.Registry{Reference: "r/x", InsecureSkipVerify: true},
			why: "Secrets of older installations go on"},
		"NewWins": {data: map[string]string{"reference": "r/x", "insecure": "true", "insecureSkipTLS": "false"},
			write: oci.Registry{Reference: "r/x"}, read: oci.Registry{Reference: "r/x"}, why: "the newer name wins"},
		"WrongType": {kind: "Opaque", data: map[string]string{"reference": "r/x"},
			err: `the secret is of type "Opaque"; want "fleet.cattle.io/bundle-oci-storage/v1alpha1"`},
		"NoReference": {data: map[string]string{"username": "u", "password": "p"}, err: `the secret has no key "reference" (host[:port]/path of the registry)`},
		"NoBool":      {data: map[string]string{"reference": "r/x", "basicHTTP": "ja-" + secret}, err: `key "basicHTTP" of the secret is neither "true" nor "false"`},
		"LineBreak":   {data: map[string]string{"reference": "r/x", "username": "u", "password": secret + "\n"}, err: `key "password" of the secret contains control characters (a line break at its end?)`},
		"HalfAnAccount": {data: map[string]string{"reference": "r/x", "username": "u"},
			err: `a user name for registry "r/x" is set, but no password`, why: "nothing would be sent, without a reason for the user"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{}
			for k, v := range c.data {
				data[k] = []byte(v)
			}
			kind := fleet.SecretTypeOCIStorage
			if c.kind != "" {
				kind = c.kind
			}
			s, err := oci.StorageOf(kind, data)
			if c.err != "" {
				if err == nil || err.Error() != c.err || reconcile.ReasonOf(err) != oci.ReasonInvalidCredentials || !reconcile.IsTerminal(err) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]oci.Registry{c.write, c.read}, []oci.Registry{s.Write(), s.Read()}); diff != "" {
				t.Errorf("%s: %s", c.why, diff)
			}
			if a := s.Artifact("s-1"); !strings.HasSuffix(a, "/x/s-1:latest") || strings.Contains(a, "oci:") {
				t.Errorf("Artifact: %s", a)
			}
		})
	}
}
