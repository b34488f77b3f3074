package git

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/git/gittest"
)

// Several references of one remote cost one request, and what one of them
// lacks is not the others' concern.
func TestResolveAll(t *testing.T) {
	repo := gittest.NewRepo(t)
	first := Commit(repo.Commit("first", map[string]string{"a": "1"}))
	repo.Git("tag", "-a", "v1", "-m", "one")
	second := Commit(repo.Commit("second", map[string]string{"a": "2"}))
	server := gittest.ServeHTTP(t, filepath.Dir(repo.Dir))
	remotes := newRemotes(t, Limits{})
	src := Source{URL: server.URL + "/repo"}
	hash := strings.Repeat("ab", 20)
	got := remotes.ResolveAll(t.Context(), src, []Reference{
		{Branch: "main"}, {Revision: "v1"}, {Branch: "gone"}, {Revision: hash}, {Branch: "a b"},
	})
	want := []Commit{second, first, "", Commit(hash), ""}
	for i, a := range got {
		if a.Commit != want[i] || (a.Err == nil) != (want[i] != "") {
			t.Errorf("answer %d: want %q, got %q, %v", i, want[i], a.Commit, a.Err)
		}
	}
	wantFault(t, got[2].Err, ReasonBranchNotFound, `branch "gone" does not exist; the default branch is "main"`)
	wantFault(t, got[4].Err, ReasonInvalidReference, "")
	if n := len(server.Requests()); n != 1 {
		t.Errorf("one request for all, got %v", server.Requests())
	}
	remotes.ResolveAll(t.Context(), src, []Reference{{Revision: hash}})
	if n := len(server.Requests()); n != 1 {
		t.Errorf("a hash needs no request, got %v", server.Requests())
	}
}

// A remote that lists references without end costs neither memory nor more
// than the limit on the wire, and says nothing about its host: neither when it
// is asked what a reference is, nor when a commit is fetched.
func TestEndlessReferences(t *testing.T) {
	_, server, _ := world(t)
	var sent, highest atomic.Int64
	server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		to := pktline.NewEncoder(w)
		_ = to.EncodeString("# service=git-upload-pack\n")
		_ = to.Flush()
		_ = to.EncodeString(strings.Repeat("1", 40) + " HEAD\x00symref=HEAD:refs/heads/main\n")
		for i := 0; ; i++ {
			line := fmt.Sprintf("%040x refs/heads/branch-with-a-rather-long-name-%d\n", i+1, i)
			if to.EncodeString(line) != nil {
				return true
			}
			sent.Add(int64(len(line)))
			if i%50_000 == 0 {
				highest.Store(max(highest.Load(), heap()))
			}
		}
	})
	src, pinned := Source{URL: server.URL + "/repo"}, strings.Repeat("ab", 20)
	fetch := func(remotes *Remotes, ref Reference) error {
		_, err := remotes.Fetch(t.Context(), src, ref, Commit(pinned))
		return err
	}
	for name, ask := range map[string]func(*Remotes) error{
		"Resolve": func(r *Remotes) error { _, err := r.Resolve(t.Context(), src, Reference{Branch: "main"}); return err },
		"Branch":  func(r *Remotes) error { return fetch(r, Reference{Branch: "main"}) },
		"Pinned":  func(r *Remotes) error { return fetch(r, Reference{Revision: pinned}) },
	} {
		t.Run(name, func(t *testing.T) {
			runtime.GC()
			before := heap()
			sent.Store(0)
			highest.Store(0)
			err := ask(newRemotes(t, Limits{}))
			wantFault(t, err, ReasonTooLarge, "the list of references is larger than 64 MiB")
			if HostAway(err) {
				t.Error("the host is not away")
			}
			if sent.Load() < maxRefsBytes/2 {
				t.Fatalf("the server sent only %d bytes", sent.Load())
			}
			if held := highest.Load() - before; held > 64<<20 {
				t.Errorf("up to %d MiB of heap for a list of %d MiB that was not asked for", held>>20, sent.Load()>>20)
			}
		})
	}
}

// heap is how many bytes are in use, after what is garbage has been found.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestSieve(t *testing.T) {
	hash := strings.Repeat("1", 40)
	var in strings.Builder
	to := pktline.NewEncoder(&in)
	lines := []string{
		"# service=git-upload-pack\n", "",
		hash + " refs/heads/first\x00symref=HEAD:refs/heads/main\n",
		hash + " HEAD\n", hash + " refs/heads/main\n", hash + " refs/heads/other\n",
		hash + " refs/tags/v1\n", hash + " refs/tags/v1^{}\n", "shallow " + hash + "\n", "",
	}
	for _, l := range lines {
		if l == "" {
			_ = to.Flush()
			continue
		}
		_ = to.EncodeString(l)
	}
	out, err := io.ReadAll(filterRefs(strings.NewReader(in.String()), refFilter([]Reference{{Branch: "main"}, {Revision: "v1"}})))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for s := pktline.NewScanner(strings.NewReader(string(out))); s.Scan(); {
		got = append(got, string(s.Bytes()))
	}
	want := append(append([]string{}, lines[:5]...), lines[6:]...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("only other's reference is left out\n-want +got\n%s", diff)
	}
}
