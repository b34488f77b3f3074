package webhook

import (
	"net/http"
	"slices"

	"github.com/go-playground/webhooks/v6/azuredevops"
	"github.com/go-playground/webhooks/v6/bitbucket"
	bitbucketserver "github.com/go-playground/webhooks/v6/bitbucket-server"
	"github.com/go-playground/webhooks/v6/gitea"
	"github.com/go-playground/webhooks/v6/github"
	"github.com/go-playground/webhooks/v6/gitlab"

	"github.com/fleetworkspace/fleet/pkg/plan/webhook"
)

// A provider is a kind of git host that sends webhooks.
type provider struct {
	name string
	// headers are those of which each webhook of the provider has one.
	headers []string
	// event is the header that names the event. Azure DevOps names it in the payload.
	event  string
	pushes []string // events that announce commits
	ping   string   // the event that a test of the connection sends
	parse  func(body []byte) (webhook.Push, error)
	// verify reports whether a request is signed with a key of a Secret. It takes the same
	// time for every signature.
	verify func(h http.Header, body []byte, keys map[string][]byte) bool
	keys   []string // of the Secret, that verify needs
}

// providers are in the order in which a request is compared with them: Gitea sends the
// headers of GitHub too, and Bitbucket has the header of Bitbucket Server.
var providers = []provider{
	{
		name: "gogs", headers: []string{"X-Gogs-Event"}, event: "X-Gogs-Event", pushes: []string{"push"},
		parse: parseGogs, verify: byHMAC("X-Gogs-Signature", "", "gogs"), keys: []string{"gogs"},
	},
	{
		name: "github", headers: []string{"X-GitHub-Event"}, event: "X-GitHub-Event", pushes: []string{"push"}, ping: "ping",
		parse: parseGitHub, verify: byHMAC("X-Hub-Signature-256", "sha256=", "github"), keys: []string{"github"},
	},
	{
		name: "gitlab", headers: []string{"X-Gitlab-Event"}, event: "X-Gitlab-Event",
		pushes: []string{string(gitlab.PushEvents), string(gitlab.TagEvents)},
		parse:  parseGitLab, verify: byToken("X-Gitlab-Token", "gitlab"), keys: []string{"gitlab"},
	},
	{
		name: "bitbucket", headers: []string{"X-Hook-UUID"}, event: "X-Event-Key", pushes: []string{string(bitbucket.RepoPushEvent)},
		parse: parseBitbucket, verify: byToken("X-Hook-UUID", "bitbucket"), keys: []string{"bitbucket"},
	},
	{
		name: "bitbucket-server", headers: []string{"X-Event-Key"}, event: "X-Event-Key",
		pushes: []string{string(bitbucketserver.RepositoryReferenceChangedEvent)}, ping: string(bitbucketserver.DiagnosticsPingEvent),
		parse: parseBitbucketServer, verify: byHMAC("X-Hub-Signature", "sha256=", "bitbucket-server"), keys: []string{"bitbucket-server"},
	},
	{
		name: "azure", headers: []string{"X-Vss-Activityid", "X-Vss-Subscriptionid"},
		parse: parseAzure, verify: byBasicAuth, keys: []string{"azure-username", "azure-password"},
	},
}

// providerOf returns the provider that a request comes from; nil if there is none.
func providerOf(h http.Header) *provider {
	for i := range providers {
		if slices.ContainsFunc(providers[i].headers, func(name string) bool { return h.Get(name) != "" }) {
			return &providers[i]
		}
	}
	return nil
}

// pushOf returns a Push to one reference of the repository with these addresses.
func pushOf(ref, commit string, addresses ...string) (webhook.Push, error) {
	push := webhook.Push{Addresses: addresses}
	if !push.AddChange(ref, commit) {
		return webhook.Push{}, errNoHash
	}
	return push, nil
}

var gogsFields = fields{"after": {}, "ref": {}, "repository": {"html_url": {}, "ssh_url": {}, "clone_url": {}}}

func parseGogs(body []byte) (webhook.Push, error) {
	p, err := decode[gitea.PushPayload](gogsFields, body)
	if err != nil || p.Repo == nil {
		return webhook.Push{}, err
	}
	return pushOf(p.Ref, p.After, p.Repo.HTMLURL, p.Repo.SSHURL, p.Repo.CloneURL)
}

func parseGitHub(body []byte) (webhook.Push, error) {
	p, err := decode[github.PushPayload](gogsFields, body)
	if err != nil {
		return webhook.Push{}, err
	}
	return pushOf(p.Ref, p.After, p.Repository.HTMLURL, p.Repository.SSHURL, p.Repository.CloneURL)
}

var gitLabFields = fields{"checkout_sha": {}, "ref": {}, "project": {"web_url": {}, "git_ssh_url": {}, "git_http_url": {}}}

func parseGitLab(body []byte) (webhook.Push, error) {
	p, err := decode[gitlab.PushEventPayload](gitLabFields, body)
	if err != nil {
		return webhook.Push{}, err
	}
	return pushOf(p.Ref, p.CheckoutSHA, p.Project.WebURL, p.Project.GitSSHURL, p.Project.GitHTTPURL)
}

var bitbucketFields = fields{
	"repository": {"links": {"html": {"href": {}}}},
	"push":       {"changes": {"new": {"type": {}, "name": {}, "target": {"hash": {}}}}},
}

func parseBitbucket(body []byte) (webhook.Push, error) {
	p, err := decode[bitbucket.RepoPushPayload](bitbucketFields, body)
	if err != nil {
		return webhook.Push{}, err
	}
	push := webhook.Push{Addresses: []string{p.Repository.Links.HTML.Href}}
	for _, c := range p.Push.Changes {
		if c.New.Type == "branch" && !push.AddChange("refs/heads/"+c.New.Name, c.New.Target.Hash) {
			return webhook.Push{}, errNoHash
		}
	}
	return push, nil
}

var bitbucketServerFields = fields{
	"repository": {"links": {"clone": {"href": {}}}},
	"changes":    {"refId": {}, "toHash": {}},
}

func parseBitbucketServer(body []byte) (webhook.Push, error) {
	p, err := decode[bitbucketserver.RepositoryReferenceChangedPayload](bitbucketServerFields, body)
	if err != nil {
		return webhook.Push{}, err
	}
	var push webhook.Push
	links, _ := p.Repository.Links["clone"].([]any) // the library has no type for links
	for _, l := range links {
		link, _ := l.(map[string]any)
		if address, ok := link["href"].(string); ok {
			push.Addresses = append(push.Addresses, address)
		}
	}
	for _, c := range p.Changes {
		if !push.AddChange(c.ReferenceID, c.ToHash) {
			return webhook.Push{}, errNoHash
		}
	}
	return push, nil
}

var azureFields = fields{
	"eventType": {},
	"resource":  {"refUpdates": {"name": {}, "newObjectId": {}}, "repository": {"remoteUrl": {}}},
}

func parseAzure(body []byte) (webhook.Push, error) {
	p, err := decode[azuredevops.GitPushEvent](azureFields, body)
	if err != nil || p.EventType != string(azuredevops.GitPushEventType) {
		return webhook.Push{}, err
	}
	push := webhook.Push{Addresses: []string{p.Resource.Repository.RemoteURL}}
	for _, c := range p.Resource.RefUpdates {
		if !push.AddChange(c.Name, c.NewObjectID) {
			return webhook.Push{}, errNoHash
		}
	}
	return push, nil
}
