package broken

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
)

const (
	branch = "main"
	// keptPacks is how many commits of a repository can be fetched: its head, and those that
	// a reader may have seen just before.
	keptPacks = 3
	// capabilities make readers ask for one commit without history, as a plain pack.
	capabilities = "shallow allow-reachable-sha1-in-want symref=HEAD:refs/heads/" + branch + " agent=benchmark"
)

// A repository is a git repository in memory with one branch and one bundle directory. A
// process of git for each of its requests would need more of the machine than what is
// measured.
type repository struct {
	mu    sync.Mutex
	heads []plumbing.Hash // the newest last
	packs map[plumbing.Hash][]byte
}

// commit adds a commit whose ConfigMap has a value, and returns its hash.
func (r *repository) commit(name, value string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	store := memory.NewStorage()
	var hashes []plumbing.Hash
	add := func(o interface {
		Encode(o plumbing.EncodedObject) error
	}) (plumbing.Hash, error) {
		encoded := store.NewEncodedObject()
		if err := o.Encode(encoded); err != nil {
			return plumbing.ZeroHash, err
		}
		hash, err := store.SetEncodedObject(encoded)
		hashes = append(hashes, hash)
		return hash, err
	}
	settings, err := add(text(fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {value: %q}\n", value)))
	if err != nil {
		return "", fmt.Errorf("make commit: %w", err)
	}
	options, err := add(text("defaultNamespace: " + name + "\n"))
	if err != nil {
		return "", fmt.Errorf("make commit: %w", err)
	}
	app, err := add(&object.Tree{Entries: []object.TreeEntry{
		{Name: "fleet.yaml", Mode: filemode.Regular, Hash: options}, {Name: "settings.yaml", Mode: filemode.Regular, Hash: settings},
	}})
	if err != nil {
		return "", fmt.Errorf("make commit: %w", err)
	}
	root, err := add(&object.Tree{Entries: []object.TreeEntry{{Name: "app", Mode: filemode.Dir, Hash: app}}})
	if err != nil {
		return "", fmt.Errorf("make commit: %w", err)
	}
	who := object.Signature{Name: "Benchmark", Email: "benchmark@example.invalid", When: time.Now()}
	commit := &object.Commit{Author: who, Committer: who, Message: value, TreeHash: root}
	if len(r.heads) > 0 {
		commit.ParentHashes = r.heads[len(r.heads)-1:]
	}
	head, err := add(commit)
	if err != nil {
		return "", fmt.Errorf("make commit: %w", err)
	}
	var pack bytes.Buffer
	if _, err := packfile.NewEncoder(&pack, store, false).Encode(hashes, 0); err != nil {
		return "", fmt.Errorf("pack commit: %w", err)
	}
	r.keep(head, pack.Bytes())
	return head.String(), nil
}

// keep makes a commit the head and drops the oldest. The caller holds the lock.
func (r *repository) keep(head plumbing.Hash, pack []byte) {
	if r.packs == nil {
		r.packs = map[plumbing.Hash][]byte{}
	}
	r.heads = append(r.heads, head)
	r.packs[head] = pack
	if len(r.heads) > keptPacks {
		delete(r.packs, r.heads[0])
		r.heads = r.heads[1:]
	}
}

// text is a file.
type text string

func (t text) Encode(o plumbing.EncodedObject) error {
	o.SetType(plumbing.BlobObject)
	w, err := o.Writer()
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, string(t)); err != nil {
		return err
	}
	return w.Close()
}

// line writes a line of git's protocol.
func line(w io.Writer, text string) error {
	_, err := fmt.Fprintf(w, "%04x%s", len(text)+4, text)
	return err
}

// advertise answers with the references.
func (r *repository) advertise(w http.ResponseWriter) {
	r.mu.Lock()
	head := r.heads[len(r.heads)-1].String()
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
	var out bytes.Buffer // writing to it cannot fail
	_ = line(&out, "# service=git-upload-pack\n")
	out.WriteString("0000")
	_ = line(&out, head+" HEAD\x00"+capabilities+"\n")
	_ = line(&out, head+" refs/heads/"+branch+"\n")
	out.WriteString("0000")
	_, _ = w.Write(out.Bytes()) // a client that went away needs no answer
}

// upload answers a request for one commit.
func (r *repository) upload(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	_, after, found := strings.Cut(string(body), "want ")
	if err != nil || !found || len(after) < 40 {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	want := plumbing.NewHash(after[:40])
	r.mu.Lock()
	pack := r.packs[want]
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
	if pack == nil {
		_ = line(w, "ERR upload-pack: not our ref "+want.String())
		return
	}
	if strings.Contains(string(body), "deepen 1") {
		_ = line(w, "shallow "+want.String())
		_, _ = io.WriteString(w, "0000")
	}
	_ = line(w, "NAK\n")
	_, _ = w.Write(pack)
}
