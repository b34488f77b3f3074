package install

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// An Agent is what the chart fleet-agent gets about one new agent.
type Agent struct {
	Token     map[string]any        // the values that the manager made for its token
	Upstream  Upstream              // takes the place of the token's
	Namespace string                // of the agent
	Settings  registration.Settings // of the manager; zero: not known
	ClientID  string                // empty: the UID of its namespace kube-system
	Labels    map[string]string     // that it asks for
}

// Values returns the values of the chart fleet-agent. The values that the manager made for
// the token are kept, except the address and its authority.
func (a Agent) Values() (map[string]any, error) {
	values := map[string]any{
		"apiServerURL": a.Upstream.URL, "apiServerCA": string(a.Upstream.CA),
		"internal": map[string]any{"systemNamespace": a.Namespace},
	}
	s := a.Settings
	if s.AgentTLSMode == registration.TLSStrict && len(a.Upstream.CA) == 0 {
		return nil, errors.New("this manager's agents trust its configured authority alone (agentTLSMode strict), " +
			"and there is none: name one with --ca-file FILE")
	}
	if s.AgentTLSMode != "" {
		values["agentTLSMode"] = s.AgentTLSMode
	}
	if s.AgentImage != "" {
		image, err := ImageValues(s.AgentImage)
		if err != nil {
			return nil, fmt.Errorf("configuration of the manager: %w", err)
		}
		if s.AgentImagePullPolicy != "" {
			image["imagePullPolicy"] = s.AgentImagePullPolicy
		}
		values["image"] = image
	}
	if cattle := a.globalValues(); len(cattle) > 0 {
		values["global"] = map[string]any{"cattle": cattle}
	}
	if a.ClientID != "" {
		values["clientID"] = a.ClientID
	}
	if len(a.Labels) > 0 {
		labels := map[string]any{}
		for k, v := range a.Labels {
			labels[k] = v
		}
		values["labels"] = labels
	}
	return merged(a.Token, values), nil
}

// globalValues returns the value "global" of the agent chart: registry and pull secrets.
func (a Agent) globalValues() map[string]any {
	out := map[string]any{}
	s := a.Settings
	if r := s.SystemDefaultRegistry; r != "" && !strings.HasPrefix(s.AgentImage, r+"/") {
		out["systemDefaultRegistry"] = r
	}
	var pull []any
	for _, name := range s.ImagePullSecrets {
		pull = append(pull, map[string]any{"name": name})
	}
	if len(pull) > 0 {
		out["imagePullSecrets"] = pull
	}
	return out
}

// merged are values with further ones on top, key by key. It changes neither.
func merged(base, top map[string]any) map[string]any {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range top {
		below, ok := out[key].(map[string]any)
		if above, both := value.(map[string]any); ok && both {
			value = merged(below, above)
		}
		out[key] = value
	}
	return out
}
