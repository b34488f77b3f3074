package harness

import (
	"context"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/client-go/kubernetes"

	planrelease "github.com/fleetworkspace/fleet/pkg/plan/release"
)

// A StoredRelease is one stored revision, as Helm keeps it.
type StoredRelease = release.Release

// ChangeRelease changes a stored revision of a Helm release, as a user who may
// write Secrets in its namespace can.
func ChangeRelease(client kubernetes.Interface, id planrelease.ID, revision int, change func(*StoredRelease)) error {
	store := storage.Init(driver.NewSecrets(client.CoreV1().Secrets(id.Namespace)))
	r, err := store.Get(id.Name, revision)
	if err != nil {
		return err
	}
	change(r)
	return store.Update(r)
}

// RewriteRelease gives a stored revision of a Helm release another status, as
// a process leaves it that was killed in the middle of its work.
func RewriteRelease(_ context.Context, client kubernetes.Interface, id planrelease.ID, revision int, status string) error {
	return ChangeRelease(client, id, revision, func(r *StoredRelease) { r.Info.Status = release.Status(status) })
}
