package harness

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What an audit log says is read across its older files, from a moment on,
// each watch once and with its end, and without a line that is still being written.
func TestReadAudit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	files := map[string]string{
		"audit-2026-01-01T10-00-00.000.log": `{"verb":"create","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/a/configmaps?x=y","userAgent":"old","requestReceivedTimestamp":"2026-01-01T09:59:58.000000Z"}
{"verb":"patch","stage":"ResponseComplete","requestURI":"/x","userAgent":"fleet-agent/v1 (check-in)","user":{"username":"system:serviceaccount:cattle-fleet-clusters-system:r"},"objectRef":{"apiGroup":"fleet.cattle.io","resource":"clusters","subresource":"status","namespace":"a","name":"c1"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-01T10:00:00.000000Z"}
`,
		"audit.log": `{"verb":"watch","auditID":"1","stage":"ResponseStarted","requestURI":"/w","userAgent":"b","requestReceivedTimestamp":"2026-01-01T10:00:01.000000Z"}
{"verb":"watch","auditID":"2","stage":"ResponseStarted","requestURI":"/v","requestReceivedTimestamp":"2026-01-01T10:00:01.000000Z"}
{"verb":"watch","auditID":"1","stage":"ResponseComplete","requestURI":"/w","userAgent":"b","requestReceivedTimestamp":"2026-01-01T10:00:01.000000Z","stageTimestamp":"2026-01-01T10:00:04.000000Z"}
{"verb":"create","stage":"ResponseComplete","requestURI":"/c","responseStatus":{"metadata":{},"status":"Failure","message":"no","reason":"Forbidden","details":{"name":"x","kind":"roles","causes":[{"reason":"NamespaceTerminating","message":"a is being terminated","field":"metadata.namespace"}]},"code":403},"requestReceivedTimestamp":"2026-01-01T10:00:02.000000Z"}
{"verb":"get","stage":"ResponseCompl`,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	since := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)

	got, err := ReadAudit("local", path, since)

	if err != nil {
		t.Fatal(err)
	}
	want := []Request{
		{
			Cluster: "local", At: since, User: "system:serviceaccount:cattle-fleet-clusters-system:r", Agent: "fleet-agent/v1 (check-in)",
			Verb: "patch", Group: "fleet.cattle.io", Resource: "clusters", Subresource: "status", Namespace: "a", Name: "c1", Path: "/x", Code: 200,
		},
		{Cluster: "local", At: since.Add(time.Second), Ended: since.Add(4 * time.Second), Agent: "b", Verb: "watch", Path: "/w"},
		{Cluster: "local", At: since.Add(time.Second), Verb: "watch", Path: "/v"},
		{Cluster: "local", At: since.Add(2 * time.Second), Verb: "create", Path: "/c", Code: 403, Ending: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if !got[0].Ours() || !got[0].Writes() || got[0].What() != "clusters/status" {
		t.Error("a sign of life is a write of ours to clusters/status")
	}
	if got[1].Ours() || got[1].Writes() || got[1].What() != "/w" {
		t.Error("a watch without a user is no write of ours")
	}
}
