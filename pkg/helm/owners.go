package helm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	helmkube "helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// checked says for which existing objects the owner is checked.
type checked int

// The values of checked.
const (
	ownersIgnored checked = iota // helm.takeOwnership
	ownersBundles                // those of other bundles: an upgrade
	ownersAll                    // all: an install
)

// owners holds what an action needs to know of the owners of existing objects.
type owners struct {
	check      checked
	deployment Deployment
	// claims are the objects of a release; see Client.Claims.
	claims func(release.ID) (Claims, error)

	reserved *reservations

	mu    sync.Mutex
	known map[release.ID]Claims
}

// awaited reports whether another bundle of the repository waits for an object.
func (o *owners) awaited(info *resource.Info) bool {
	return o.deployment.Awaited != nil && o.deployment.Awaited(identityOf(info))
}

// hasObject reports whether a release has an object in its newest manifest.
func (o *owners) hasObject(id release.ID, info *resource.Info) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	claims, ok := o.known[id]
	if !ok {
		var err error
		if claims, err = o.claims(id); err != nil {
			return false, err
		}
		if o.known == nil {
			o.known = map[release.ID]Claims{}
		}
		o.known[id] = claims
	}
	return claims.Objects[identityOf(info)], nil
}

// checkOwner refuses an object that another release has made, or that no release has
// made. It also refuses, in an upgrade, an object of another bundle of this agent; see
// release.Claim.
func (e *engine) checkOwner(info *resource.Info, what string) error {
	if e.owners.check == ownersIgnored || isHook(info) || e.isOwnNamespace(info) {
		return nil
	}
	live, err := get(info)
	if isGone(err) {
		return nil
	}
	if words, ok := deniedText(err); ok {
		return forbidden(what, words)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	owner := OwnerOf(live)
	if owner == e.id {
		return nil
	}
	claim, bundle := e.owners.claim(owner)
	refused, err := e.refusesClaim(claim, owner, info)
	if err != nil || !refused {
		return err
	}
	if claim == release.Shared {
		return e.sharedObjectWait(owner, bundle, info, what)
	}
	if bundle != "" {
		return reconcile.TerminalError(release.ReasonNotOwned, errors.New(release.ForeignText(what, bundle, owner)))
	}
	by := "it was made by somebody else"
	if owner.Name != "" {
		by = "it belongs to release " + owner.String()
	}
	return reconcile.TerminalError(release.ReasonNotOwned, fmt.Errorf(
		"%s exists and does not belong to this release: %s; set helm.takeOwnership to take it over", what, by))
}

// sharedObjectWait is the wait for an object that another bundle of the repository has.
func (e *engine) sharedObjectWait(owner release.ID, bundle string, info *resource.Info, what string) error {
	if report := e.owners.deployment.Shared; report != nil {
		report(SharedObject{Owner: owner, Kind: info.Mapping.GroupVersionKind, Namespace: info.Namespace, Name: info.Name})
	}
	return reconcile.RequeueError(release.ReasonSharedObject, waitForOthers, errors.New(
		release.SharedText(what, e.owners.deployment.Memory.Owner.BundleID, bundle, owner)))
}

// claim says how a release relates to the one that is deployed.
func (o *owners) claim(owner release.ID) (release.Claim, string) {
	if o.deployment.Claim == nil || owner.Name == "" {
		return release.Unrelated, ""
	}
	return o.deployment.Claim(owner)
}

// refusesClaim reports whether an object of another release is not taken over.
func (e *engine) refusesClaim(claim release.Claim, owner release.ID, info *resource.Info) (bool, error) {
	switch claim {
	case release.Ceded:
		return false, nil
	case release.Shared:
		return e.owners.hasObject(owner, info)
	case release.Foreign:
		if e.owners.check == ownersBundles {
			return e.owners.hasObject(owner, info)
		}
	}
	return e.owners.check == ownersAll, nil
}

// reservations are the objects that actions under way are about to write. Two that
// run at once would both find that an object does not exist yet.
type reservations struct {
	mu      sync.Mutex
	holders map[string]release.ID // by Identity
}

// reserve reserves objects for a release, unless another one has reserved one of
// them: that one is returned, and nothing is reserved.
func (r *reservations) reserve(id release.ID, list helmkube.ResourceList, skip func(*resource.Info, release.ID) bool) (*resource.Info, release.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, info := range list {
		if other, ok := r.holders[identityOf(info)]; ok && other != id && !skip(info, other) {
			return info, other
		}
	}
	for _, info := range list {
		if _, ok := r.holders[identityOf(info)]; !ok {
			r.holders[identityOf(info)] = id
		}
	}
	return nil, release.ID{}
}

// release ends what a release has reserved.
func (r *reservations) release(id release.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.holders, func(_ string, by release.ID) bool { return by == id })
}

// reserve keeps other actions from writing the objects of this one, until the
// action is over.
func (e *engine) reserve(list helmkube.ResourceList) error {
	if e.owners.check == ownersIgnored {
		return nil
	}
	info, other := e.owners.reserved.reserve(e.id, list, func(info *resource.Info, by release.ID) bool {
		claim, _ := e.owners.claim(by)
		return claim == release.Ceded || e.isOwnNamespace(info)
	})
	if info == nil {
		return nil
	}
	what := describeInfo(info)
	if obj, ok := info.Object.(*unstructured.Unstructured); ok {
		what = objectInFile(e.sourceOf(info), obj)
	}
	if claim, bundle := e.owners.claim(other); claim == release.Shared {
		return e.sharedObjectWait(other, bundle, info, what)
	}
	return reconcile.RequeueError(release.ReasonNotOwned, waitForOthers, fmt.Errorf("%s is just being deployed by release %s", what, other))
}

// Claims are the objects in the newest manifest of a release.
type Claims struct {
	There   bool            // the release exists
	Made    bool            // by this agent
	Objects map[string]bool // by Identity, if it was made by this agent
}

// Claims reads the objects of a release.
func (c *Client) Claims(ctx context.Context, id release.ID) (Claims, error) {
	list, err := c.store.records(ctx, id)
	if err != nil || len(list) == 0 {
		return Claims{}, err
	}
	newest := list[len(list)-1]
	if !newest.readable {
		return Claims{}, fmt.Errorf("read release %s: its newest record cannot be read", id)
	}
	out := Claims{There: true, Made: readMemory(newest.Chart.Metadata.Annotations).Owner.AgentNamespace == c.cfg.AgentNamespace}
	if !out.Made {
		return out, nil
	}
	if err := c.store.readBody(ctx, &newest); err != nil {
		return Claims{}, err
	}
	out.Objects = map[string]bool{}
	c.claimed(id, newest, out.Objects)
	return out, nil
}
