package registration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// TLS modes of agents.
const (
	TLSSystemStore = "system-store" // the system's certificate authorities, where they fit
	TLSStrict      = "strict"       // only the configured ones
)

// DefaultCheckinInterval is how often an agent says that it lives.
const DefaultCheckinInterval = time.Minute

// Settings are what the manager is told by the ConfigMap fleet-controller.
type Settings struct {
	SystemDefaultRegistry           string // prefix of images, without the slash
	AgentImage                      string
	AgentImagePullPolicy            string
	APIServerURL                    string // of the manager, for downstream agents
	APIServerCA                     []byte // PEM
	AgentTLSMode                    string
	AgentCheckinInterval            time.Duration
	IgnoreClusterRegistrationLabels bool
	ImagePullSecrets                []string
	Bootstrap                       Bootstrap
}

// Bootstrap is how the manager's own cluster joins the fleet.
type Bootstrap struct {
	Namespace          string // the workspace; empty: it does not join
	AgentNamespace     string
	LocalAgentDisabled bool
	ClusterLabels      map[string]string
	Repo               string // of a GitRepo to make; empty: none
	Secret             string
	Branch             string
	Paths              []string
}

// settingsFile is the format of the ConfigMap's key "config".
type settingsFile struct {
	SystemDefaultRegistry           string        `json:"systemDefaultRegistry"`
	AgentImage                      string        `json:"agentImage"`
	AgentImagePullPolicy            string        `json:"agentImagePullPolicy"`
	APIServerURL                    string        `json:"apiServerURL"`
	APIServerCA                     []byte        `json:"apiServerCA"`
	AgentTLSMode                    string        `json:"agentTLSMode"`
	AgentCheckinInterval            string        `json:"agentCheckinInterval"`
	IgnoreClusterRegistrationLabels bool          `json:"ignoreClusterRegistrationLabels"`
	ImagePullSecrets                []secretName  `json:"imagePullSecrets"`
	Bootstrap                       bootstrapFile `json:"bootstrap"`
}

type secretName struct {
	Name string `json:"name"`
}

type bootstrapFile struct {
	Namespace          string            `json:"namespace"`
	AgentNamespace     string            `json:"agentNamespace"`
	LocalAgentDisabled bool              `json:"localAgentDisabled"`
	ClusterLabels      map[string]string `json:"clusterLabels"`
	Repo               string            `json:"repo"`
	Secret             string            `json:"secret"`
	Branch             string            `json:"branch"`
	Paths              string            `json:"paths"`
}

// ParseSettings reads the key "config" of ConfigMap fleet-controller: YAML or
// JSON. What is missing has its default; an empty text is all defaults. Unknown
// keys are ignored, because other versions write them. A value that makes no
// sense is dropped with a warning, in the order of the fields.
//
// The error is for a text that cannot be read at all.
func ParseSettings(config string) (Settings, []string, error) {
	file := settingsFile{
		AgentImagePullPolicy: "IfNotPresent",
		AgentTLSMode:         TLSSystemStore,
		Bootstrap:            bootstrapFile{Namespace: fleet.NamespaceLocal, Branch: "master"},
	}
	if err := yaml.Unmarshal([]byte(config), &file); err != nil {
		return Settings{}, nil, fmt.Errorf("read configuration: %w", err)
	}
	var warnings []string
	warn := func(key, value, want string) {
		warnings = append(warnings, fmt.Sprintf("%s: %q is not %s, the default counts", key, value, want))
	}
	if file.AgentTLSMode != TLSSystemStore && file.AgentTLSMode != TLSStrict {
		warn("agentTLSMode", file.AgentTLSMode, "system-store or strict")
		file.AgentTLSMode = TLSSystemStore
	}
	checkin := DefaultCheckinInterval
	if file.AgentCheckinInterval != "" {
		d, err := time.ParseDuration(file.AgentCheckinInterval)
		switch {
		case err != nil || d != 0 && (d < time.Second || d > time.Hour):
			warn("agentCheckinInterval", file.AgentCheckinInterval, "a duration from 1s to 1h")
		case d > 0:
			checkin = d
		}
	}
	s := Settings{
		SystemDefaultRegistry: strings.TrimSuffix(file.SystemDefaultRegistry, "/"),
		AgentImage:            file.AgentImage, AgentImagePullPolicy: file.AgentImagePullPolicy,
		APIServerURL: file.APIServerURL, APIServerCA: file.APIServerCA,
		AgentTLSMode: file.AgentTLSMode, AgentCheckinInterval: checkin,
		IgnoreClusterRegistrationLabels: file.IgnoreClusterRegistrationLabels,
		Bootstrap:                       file.Bootstrap.read(),
	}
	for _, n := range file.ImagePullSecrets {
		s.ImagePullSecrets = append(s.ImagePullSecrets, n.Name)
	}
	return s, warnings, nil
}

func (f bootstrapFile) read() Bootstrap {
	b := Bootstrap{
		Namespace: f.Namespace, AgentNamespace: f.AgentNamespace, LocalAgentDisabled: f.LocalAgentDisabled,
		ClusterLabels: maps.Clone(f.ClusterLabels), Repo: f.Repo, Secret: f.Secret, Branch: f.Branch,
	}
	if b.Namespace == "-" {
		b.Namespace = ""
	}
	if b.AgentNamespace == "" {
		b.AgentNamespace = fleet.NamespaceLocalAgent
	}
	b.Paths = slices.DeleteFunc(strings.Split(f.Paths, ","), func(p string) bool { return strings.TrimSpace(p) == "" })
	for i, p := range b.Paths {
		b.Paths[i] = strings.TrimSpace(p)
	}
	return b
}
