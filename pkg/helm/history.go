package helm

import (
	"context"

	"github.com/fleetworkspace/fleet/pkg/plan/release"

	helmrelease "helm.sh/helm/v3/pkg/release"
)

// observed sums up the revisions of one release, oldest first.
func observed(id release.ID, list []record) release.Observed {
	out := release.Summarize(id, revisions(list))
	for _, r := range list {
		if r.readable {
			out.Values = r.Config
		}
		if r.Version == out.Good {
			out.Manifest, out.Large = r.Manifest, r.body != (bodyRef{})
			out.CRDs = notedCRDs(r.Chart.Metadata.Annotations)
		}
	}
	if out.Large {
		out.Manifest = ""
	}
	return out
}

// revisions are records as they are judged.
func revisions(list []record) []release.Revision {
	out := make([]release.Revision, 0, len(list))
	for _, r := range list {
		v := release.Revision{
			Number: r.Version, State: r.Info.Status, Since: r.Info.LastDeployed, Description: r.Info.Description,
			Memory: readMemory(r.Chart.Metadata.Annotations),
		}
		if !r.readable {
			v.State = release.Unreadable
		}
		out = append(out, v)
	}
	return out
}

// deployedRecord is the revision that runs, or is to run again; see
// release.Observed.Good.
func deployedRecord(list []record) (record, bool) {
	good := release.Summarize(release.ID{}, revisions(list)).Good
	for _, r := range list {
		if r.Version == good && r.readable {
			return r, true
		}
	}
	return record{}, false
}

// Fail marks the newest revision of a release as failed if it is half done, or
// half removed, so that Helm takes up the release again. It is for a revision
// whose process is known to be gone.
func (c *Client) Fail(ctx context.Context, id release.ID) error {
	list, err := c.store.records(ctx, id)
	if err != nil || len(list) == 0 {
		return err
	}
	newest := list[len(list)-1]
	if !newest.readable || !isPending(newest.Info.Status) && newest.Info.Status != release.Uninstalling {
		return nil
	}
	return c.store.rewriteStatus(ctx, id, newest.Version, func(r *helmrelease.Release) {
		r.SetStatus(helmrelease.StatusFailed, release.InterruptedText(newest.Info.Status))
	})
}

func isPending(s release.State) bool {
	return s == release.PendingInstall || s == release.PendingUpgrade || s == release.PendingRollback
}

// RepairStatus marks the good revision of a release as deployed, where a correction of
// drift that was cut off has left it superseded. Only a record is written.
func (c *Client) RepairStatus(ctx context.Context, id release.ID) error {
	list, err := c.store.records(ctx, id)
	if err != nil {
		return err
	}
	good, ok := deployedRecord(list)
	if !ok || good.Info.Status == release.Deployed {
		return nil
	}
	return c.store.rewriteStatus(ctx, id, good.Version, func(r *helmrelease.Release) { r.Info.Status = helmrelease.StatusDeployed })
}

// unfinishedManifests are the manifests of the revisions after the last good one: they may have
// left objects that no other revision names.
func unfinishedManifests(list []record) string {
	text := ""
	for _, r := range list {
		switch r.Info.Status {
		case release.Deployed:
			text = ""
		case release.Superseded:
		default:
			text += "\n---\n" + r.Manifest
		}
	}
	return text
}

// listAttempts are the revisions of a release, with all of those that did not
// succeed.
func (s *recordStore) listAttempts(ctx context.Context, id release.ID) ([]record, error) {
	list, err := s.records(ctx, id)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if s := list[i].Info.Status; s == release.Deployed || s == release.Superseded {
			continue
		}
		if err := s.readBody(ctx, &list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// resumePending lets an action continue where earlier attempts have stopped. at is the state
// of these attempts.
func (c *Client) resumePending(ctx context.Context, j *job, before []record, at release.State, d Deployment) (err error) {
	j.engine.leftovers = unfinishedManifests(before)
	j.post.had = mayNotBeEmpty(d, j.files, before)
	j.engine.hooks.ended, err = c.endedHooks(ctx, j.account, before, at, d.Memory.DeploymentID)
	return err
}

// hasObjects reports whether the newest revision has any object.
func hasObjects(list []record) bool {
	if len(list) == 0 {
		return false
	}
	if list[len(list)-1].body != (bodyRef{}) {
		return true // it would not be that large otherwise
	}
	objs, err := parseObjects([]byte(list[len(list)-1].Manifest), "release")
	return err == nil && len(objs) > 0
}
