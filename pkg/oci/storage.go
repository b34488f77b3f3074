package oci

import (
	"fmt"
	"strconv"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Storage is where the contents of bundles are kept, as a Secret of type
// fleet.cattle.io/bundle-oci-storage/v1alpha1 says it.
type Storage struct {
	Reference          string // host[:port][/path]
	Username, Password string
	// AgentUsername and AgentPassword, where set, replace the ones above for reading.
	AgentUsername, AgentPassword string
	CABundle                     []byte
	InsecureSkipTLS              bool
	BasicHTTP                    bool
}

// StorageOf reads the type and data of a Secret. Only "reference" is required;
// "insecure" is the older name of "insecureSkipTLS". Another type, and data that cannot
// be right, are reconcile.Terminal, InvalidCredentials; the text names keys, never
// values.
func StorageOf(secretType string, data map[string][]byte) (Storage, error) {
	if secretType != fleet.SecretTypeOCIStorage {
		return Storage{}, permanentf(ReasonInvalidCredentials, "the secret is of type %q; want %q", secretType, fleet.SecretTypeOCIStorage)
	}
	s := Storage{CABundle: data["cacerts"]}
	for _, field := range []struct {
		key string
		to  *string
	}{
		{"reference", &s.Reference},
		{"username", &s.Username}, {"password", &s.Password},
		{"agentUsername", &s.AgentUsername}, {"agentPassword", &s.AgentPassword},
	} {
		*field.to = string(data[field.key])
		if !printable(*field.to) {
			return Storage{}, permanentf(ReasonInvalidCredentials, "key %q of the secret contains control characters (a line break at its end?)", field.key)
		}
	}
	if s.Reference == "" {
		return Storage{}, permanentf(ReasonInvalidCredentials, "the secret has no key \"reference\" (host[:port]/path of the registry)")
	}
	for _, field := range []struct {
		key string
		to  *bool
	}{{"insecure", &s.InsecureSkipTLS}, {"insecureSkipTLS", &s.InsecureSkipTLS}, {"basicHTTP", &s.BasicHTTP}} {
		if err := flag(data, field.key, field.to); err != nil {
			return Storage{}, err
		}
	}
	return s, s.Read().validate()
}

// Readable returns the data of a Secret that StorageOf reads, for readers: where the
// credentials to read and to write differ, those to write are left out.
func Readable(secretType string, data map[string][]byte) (map[string][]byte, error) {
	s, err := StorageOf(secretType, data)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, key := range []string{"reference", "cacerts", "basicHTTP", "insecure", "insecureSkipTLS"} {
		if v, ok := data[key]; ok {
			out[key] = v
		}
	}
	if r := s.Read(); r.Username != "" || r.Password != "" {
		out["username"], out["password"] = []byte(r.Username), []byte(r.Password)
	}
	return out, nil
}

// flag reads a truth value; a key that is not there changes nothing.
func flag(data map[string][]byte, key string, to *bool) error {
	raw, ok := data[key]
	if !ok {
		return nil
	}
	v, err := strconv.ParseBool(string(raw))
	if err != nil {
		return permanentf(ReasonInvalidCredentials, "key %q of the secret is neither \"true\" nor \"false\"", key)
	}
	*to = v
	return nil
}

// Write returns the registry with the rights to push and delete.
func (s Storage) Write() Registry {
	return Registry{
		Reference: s.Reference, Username: s.Username, Password: s.Password,
		CABundle: s.CABundle, InsecureSkipVerify: s.InsecureSkipTLS, BasicHTTP: s.BasicHTTP,
	}
}

// Read returns the registry with the rights to pull.
func (s Storage) Read() Registry {
	r := s.Write()
	if s.AgentUsername != "" {
		r.Username = s.AgentUsername
	}
	if s.AgentPassword != "" {
		r.Password = s.AgentPassword
	}
	return r
}

// Artifact returns the full reference of what is kept under id, for messages and to
// distinguish artifacts.
func (s Storage) Artifact(id string) string {
	return fmt.Sprintf("%s/%s:%s", withoutIgnored(s.Reference), id, bundleTag)
}
