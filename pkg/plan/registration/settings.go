package registration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
)

// TLS modes of agents.
const (
	TLSSystemStore = "system-store" // the system's certificate authorities, where they fit
	TLSStrict      = "strict"       // only the configured ones
)

// Settings are the settings of the manager in the ConfigMap fleet-controller.
type Settings struct {
	SystemDefaultRegistry           string // prefix of images, without the slash
	AgentImage                      string
	AgentImagePullPolicy            string
	APIServerURL                    string // of the manager, for downstream agents
	APIServerCA                     []byte // PEM
	AgentTLSMode                    string
	AgentCheckinInterval            time.Duration // 0: the manager chooses, see package heartbeat
	IgnoreClusterRegistrationLabels bool
	ImagePullSecrets                []string
	Bootstrap                       Bootstrap
	// Reclaim is ReclaimAllow or ReclaimApprove.
	Reclaim string
	// TokensChecked: the API server refuses a request that names another token than
	// the one that it is made with.
	TokensChecked bool
	// MaxPending is how many Clusters a token may bring in whose agents have not
	// checked in yet; 0: any number.
	MaxPending int
	// RequireDownstreamLabel: bundles take along only what bears the label
	// fleet.cattle.io/downstream-resource.
	RequireDownstreamLabel bool
	// Credential is how long what agents have is good for.
	Credential credential.Lifetimes

	// AgentsUnmanaged: agents are not updated by the manager. The other four are
	// of the agents that it installs.
	AgentsUnmanaged bool
	AgentReplicas   int32 // 1 where 0
	AgentWorkers    string
	AgentDebug      bool
	AgentUnconfined bool
	AgentLease      LeaseTimes
}

// LeaseTimes are the times of a lease, as flags take them; empty: the program's
// own.
type LeaseTimes struct {
	Duration string `json:"leaseDuration"`
	Retry    string `json:"retryPeriod"`
	Renew    string `json:"renewDeadline"`
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
	SystemDefaultRegistry           string           `json:"systemDefaultRegistry"`
	AgentImage                      string           `json:"agentImage"`
	AgentImagePullPolicy            string           `json:"agentImagePullPolicy"`
	APIServerURL                    string           `json:"apiServerURL"`
	APIServerCA                     []byte           `json:"apiServerCA"`
	AgentTLSMode                    string           `json:"agentTLSMode"`
	AgentCheckinInterval            string           `json:"agentCheckinInterval"`
	IgnoreClusterRegistrationLabels bool             `json:"ignoreClusterRegistrationLabels"`
	ImagePullSecrets                []secretName     `json:"imagePullSecrets"`
	Bootstrap                       bootstrapFile    `json:"bootstrap"`
	Registration                    registrationFile `json:"registration"`
	DownstreamResources             downstreamFile   `json:"downstreamResources"`
	CredentialTTL                   string           `json:"credentialTTL"`
	CredentialGrace                 string           `json:"credentialGrace"`
	ManageAgent                     *bool            `json:"manageAgent"` // true where nil
	AgentReplicas                   int32            `json:"agentReplicas"`
	AgentWorkers                    workersFile      `json:"agentWorkers"`
	Debug                           bool             `json:"agentDebug"`
	DisableSecurityContext          bool             `json:"disableSecurityContext"`
	AgentLeaderElection             LeaseTimes       `json:"agentLeaderElection"`
}

type workersFile struct {
	BundleDeployment string `json:"bundledeployment"`
}

type registrationFile struct {
	Reclaim       string `json:"reclaim"`
	TokensChecked bool   `json:"tokensChecked"`
	MaxPending    int    `json:"maxPending"`
}

type downstreamFile struct {
	RequireLabel bool `json:"requireLabel"`
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

// ParseSettings reads the key "config" of ConfigMap fleet-controller: YAML or JSON. A
// missing key has its default; an empty text gives all defaults. Unknown keys are ignored,
// because other versions write them. A value that makes no sense is dropped with a warning,
// in the order of the fields.
//
// The error is for a text that cannot be read at all.
func ParseSettings(config string) (Settings, []string, error) {
	file := settingsFile{
		AgentImagePullPolicy: "IfNotPresent",
		AgentTLSMode:         TLSSystemStore,
		Bootstrap:            bootstrapFile{Namespace: fleet.NamespaceLocal, Branch: "master"},
		Registration:         registrationFile{Reclaim: ReclaimAllow, MaxPending: DefaultMaxPending},
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
	if file.Registration.Reclaim != ReclaimAllow && file.Registration.Reclaim != ReclaimApprove {
		// A typing error must not disable the approval that the user has asked for.
		warnings = append(warnings, fmt.Sprintf("registration.reclaim: %q is not allow or approve, approve counts", file.Registration.Reclaim))
		file.Registration.Reclaim = ReclaimApprove
	}
	checkin, err := heartbeat.ParseInterval(file.AgentCheckinInterval)
	if err != nil {
		warnings = append(warnings, fmt.Sprintf("agentCheckinInterval: %v, %s counts", err, heartbeat.Auto))
	}
	life, unclear := credential.ParseLife(file.CredentialTTL, file.CredentialGrace)
	warnings = append(warnings, unclear...)
	s := Settings{
		SystemDefaultRegistry: strings.TrimSuffix(file.SystemDefaultRegistry, "/"),
		AgentImage:            file.AgentImage, AgentImagePullPolicy: file.AgentImagePullPolicy,
		APIServerURL: file.APIServerURL, APIServerCA: file.APIServerCA,
		AgentTLSMode: file.AgentTLSMode, AgentCheckinInterval: checkin,
		IgnoreClusterRegistrationLabels: file.IgnoreClusterRegistrationLabels,
		Bootstrap:                       file.Bootstrap.read(),
		Reclaim:                         file.Registration.Reclaim,
		TokensChecked:                   file.Registration.TokensChecked,
		MaxPending:                      max(file.Registration.MaxPending, 0),
		RequireDownstreamLabel:          file.DownstreamResources.RequireLabel,
		Credential:                      life,
		AgentsUnmanaged:                 file.ManageAgent != nil && !*file.ManageAgent,
		AgentReplicas:                   file.AgentReplicas,
		AgentWorkers:                    file.AgentWorkers.BundleDeployment,
		AgentDebug:                      file.Debug,
		AgentUnconfined:                 file.DisableSecurityContext,
		AgentLease:                      file.AgentLeaderElection,
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
