package chart_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

const sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestLocate(t *testing.T) {
	key := "-----BEGIN PRIVATE KEY-----\n?>~\xff\n"
	git := func(url string) chart.Location { return chart.Location{Kind: chart.Git, URL: url} }
	archive := func(url string) chart.Location { return chart.Location{Kind: chart.Archive, URL: url} }
	tests := map[string]struct {
		r    chart.Request
		want chart.Location
		why  string
	}{
		"Repository":         {chart.Request{Repo: "https://charts.example.com/stable", Chart: "app", Version: "^1"}, chart.Location{Kind: chart.Repository, URL: "https://charts.example.com/stable", Chart: "app", Version: "^1"}, "the usual form"},
		"RepositoryPlain":    {chart.Request{Repo: "http://chartmuseum:8080/?a=b", Chart: "app"}, chart.Location{Kind: chart.Repository, URL: "http://chartmuseum:8080/?a=b", Chart: "app"}, "in clusters there is often no TLS"},
		"OCI":                {chart.Request{Repo: "oci://ghcr.io/rancher/app", Version: "1.x"}, chart.Location{Kind: chart.OCI, URL: "oci://ghcr.io/rancher/app", Version: "1.x"}, "helm.repo is the chart's whole name"},
		"OCISlash":           {chart.Request{Repo: "oci://ghcr.io/rancher/app/"}, chart.Location{Kind: chart.OCI, URL: "oci://ghcr.io/rancher/app"}, ""},
		"OCIChart":           {chart.Request{Chart: "oci://127.0.0.1:5000/a/b-c_d", Version: "1.0.0"}, chart.Location{Kind: chart.OCI, URL: "oci://127.0.0.1:5000/a/b-c_d", Version: "1.0.0"}, "the deprecated form"},
		"OCITag":             {chart.Request{Repo: "oci://h:5000/a/app:1.0.0_b1"}, chart.Location{Kind: chart.OCI, URL: "oci://h:5000/a/app", Version: "1.0.0_b1"}, "Helm reads a tag"},
		"OCISameTag":         {chart.Request{Repo: "oci://h/a/app:1.0.0_b1", Version: "1.0.0+b1"}, chart.Location{Kind: chart.OCI, URL: "oci://h/a/app", Version: "1.0.0_b1"}, "+ is written as _"},
		"OCIDigest":          {chart.Request{Repo: "oci://h/a/app@sha256:" + sum}, chart.Location{Kind: chart.OCI, URL: "oci://h/a/app", Ref: "sha256:" + sum}, "Helm reads a digest"},
		"OCINamedTwice":      {chart.Request{Repo: "oci://h/a/app", Chart: "app"}, chart.Location{Kind: chart.OCI, URL: "oci://h/a/app"}, "people write both"},
		"OCIDirectory":       {chart.Request{Repo: "oci://h/a", Chart: "app"}, chart.Location{Kind: chart.OCI, URL: "oci://h/a/app"}, "the only thing it can mean"},
		"OCIDependency":      {chart.Request{Repo: "oci://h/app", Chart: "app", Version: "1", Archive: true}, chart.Location{Kind: chart.OCI, URL: "oci://h/app/app", Version: "1"}, "Helm joins repository and name"},
		"Archive":            {chart.Request{Chart: "https://h/a/app-1.0.0.tgz"}, archive("https://h/a/app-1.0.0.tgz"), ""},
		"ArchiveForced":      {chart.Request{Chart: "http::https://h/app.tgz"}, archive("https://h/app.tgz"), "go-getter's way"},
		"ArchiveQuery":       {chart.Request{Chart: "https://h/app.tgz?b=2&token=ab+c%2Fd&a=1"}, archive("https://h/app.tgz?b=2&token=ab+c%2Fd&a=1"), "a signature must keep its bytes and order"},
		"ArchiveSubdir":      {chart.Request{Chart: "https://h/repo.tgz//charts/app/?x=1"}, chart.Location{Kind: chart.Archive, URL: "https://h/repo.tgz?x=1", Subdir: "charts/app"}, ""},
		"ArchiveChecksum":    {chart.Request{Chart: "https://h/app?checksum=SHA256:" + strings.ToUpper(sum) + "&archive=.tar.gz&x=1"}, chart.Location{Kind: chart.Archive, URL: "https://h/app?x=1", Checksum: "sha256:" + sum, Format: "tar.gz"}, "what is meant for us is not sent"},
		"ArchiveMD5":         {chart.Request{Chart: "https://h/app?checksum=md5:d41d8cd98f00b204e9800998ecf8427e&archive=false"}, chart.Location{Kind: chart.Archive, URL: "https://h/app", Checksum: "md5:d41d8cd98f00b204e9800998ecf8427e", Format: "false"}, ""},
		"ArchiveUser":        {chart.Request{Chart: "https://u:p@h/app.tgz#part"}, archive("https://u:p@h/app.tgz"), "works in the reference"},
		"GitHTTPS":           {chart.Request{Chart: "git::https://h/org/repo"}, git("https://h/org/repo"), ""},
		"GitSubdirRef":       {chart.Request{Chart: "git::https://h/org/repo.git//charts/app?ref=v1.0&depth=5"}, chart.Location{Kind: chart.Git, URL: "https://h/org/repo.git", Subdir: "charts/app", Ref: "v1.0", Depth: 5}, ""},
		"GitRefBranch":       {chart.Request{Chart: "git::https://h/r?ref=feature%2Fa&x=1"}, chart.Location{Kind: chart.Git, URL: "https://h/r?x=1", Ref: "feature/a"}, "other parameters are the server's"},
		"GitKeyURL":          {chart.Request{Chart: "git::ssh://git@h/r?sshkey=" + base64.RawURLEncoding.EncodeToString([]byte(key))}, chart.Location{Kind: chart.Git, URL: "ssh://git@h/r", SSHKey: []byte(key)}, ""},
		"GitKeyStandard":     {chart.Request{Chart: "git::ssh://git@h/r?sshkey=" + base64.StdEncoding.EncodeToString([]byte(key)) + "&ref=a"}, chart.Location{Kind: chart.Git, URL: "ssh://git@h/r", SSHKey: []byte(key), Ref: "a"}, "a + that was not escaped"},
		"GitSSH":             {chart.Request{Chart: "ssh://git@h:2222/org/repo.git//app"}, chart.Location{Kind: chart.Git, URL: "ssh://git@h:2222/org/repo.git", Subdir: "app"}, ""},
		"GitForcedSSH":       {chart.Request{Chart: "ssh::git@h:org/repo"}, git("git@h:org/repo"), ""},
		"GitSCP":             {chart.Request{Chart: "git@github.com:org/repo.git//charts/app?ref=main"}, chart.Location{Kind: chart.Git, URL: "git@github.com:org/repo.git", Subdir: "charts/app", Ref: "main"}, "the reference loses ref here"},
		"GitForcedSCP":       {chart.Request{Chart: "git::git@h:org/repo?ref=x"}, chart.Location{Kind: chart.Git, URL: "git@h:org/repo", Ref: "x"}, ""},
		"ShorthandGitHub":    {chart.Request{Chart: "github.com/org/repo"}, git("https://github.com/org/repo.git"), ""},
		"ShorthandSubdir":    {chart.Request{Chart: "github.com/org/repo/charts/app"}, chart.Location{Kind: chart.Git, URL: "https://github.com/org/repo.git", Subdir: "charts/app"}, "the fourth element is a directory"},
		"ShorthandTwo":       {chart.Request{Chart: "gitlab.com/org/repo.git/a//b?ref=v1"}, chart.Location{Kind: chart.Git, URL: "https://gitlab.com/org/repo.git", Subdir: "a/b", Ref: "v1"}, ""},
		"ShorthandBitbucket": {chart.Request{Chart: "bitbucket.org/org/repo//a/./b/"}, chart.Location{Kind: chart.Git, URL: "https://bitbucket.org/org/repo.git", Subdir: "a/b"}, ""},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := chart.Locate(c.r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func TestLocateRefuses(t *testing.T) {
	tests := map[string]struct {
		r    chart.Request
		text string
	}{
		"Empty":           {chart.Request{}, "is empty"},
		"LocalPath":       {chart.Request{Chart: "charts/app"}, "no directory of the repository"},
		"Parent":          {chart.Request{Chart: "../app"}, "no directory of the repository"},
		"Absolute":        {chart.Request{Chart: "/etc"}, "no directory of the repository"},
		"Windows":         {chart.Request{Chart: `C:\charts\app`}, "backslash"},
		"Drive":           {chart.Request{Chart: "C:/charts/app"}, "drive letter"},
		"UNC":             {chart.Request{Chart: `\\server\share`}, "backslash"},
		"LineBreak":       {chart.Request{Chart: "https://h/x\n"}, "line break"},
		"Escape":          {chart.Request{Chart: "https://h/\x1b[2J"}, "control"},
		"Blank":           {chart.Request{Chart: " https://h/x"}, "blank"},
		"TooLong":         {chart.Request{Chart: "https://h/" + strings.Repeat("x", 20_000)}, "longer than 16 KiB"},
		"File":            {chart.Request{Chart: "file:///etc/passwd"}, `scheme "file"`},
		"FileForced":      {chart.Request{Chart: "file::/etc/passwd"}, "not supported"},
		"S3":              {chart.Request{Chart: "s3::https://s3.amazonaws.com/b/x.tgz"}, "not supported"},
		"GCS":             {chart.Request{Chart: "gcs::https://www.googleapis.com/storage/v1/b/x.tgz"}, "not supported"},
		"Mercurial":       {chart.Request{Chart: "hg::https://h/x"}, "not supported"},
		"S3Scheme":        {chart.Request{Chart: "s3://bucket/x"}, `scheme "s3"`},
		"FTP":             {chart.Request{Chart: "ftp://h/x.tgz"}, "not supported"},
		"Java":            {chart.Request{Chart: "javascript:alert(1)"}, "no URL"},
		"GitProtocol":     {chart.Request{Chart: "git://h/repo"}, "no identity"},
		"GitFile":         {chart.Request{Chart: "git::file:///srv/repo"}, "https://"},
		"GitLocal":        {chart.Request{Chart: "git::/srv/repo"}, "https://"},
		"GitOption":       {chart.Request{Chart: "git::--upload-pack=evil"}, "https://"},
		"GitExt":          {chart.Request{Chart: "git::ext::sh -c evil"}, "https://"},
		"GitNoRepository": {chart.Request{Chart: "git::https://h/"}, "no repository"},
		"GitOut":          {chart.Request{Chart: "git::https://h/r//../x"}, "leads out"},
		"GitOutLater":     {chart.Request{Chart: "git::https://h/r//a/../../x?ref=b"}, "leads out"},
		"GitDepth":        {chart.Request{Chart: "git::https://h/r?depth=0"}, "depth="},
		"GitDepthText":    {chart.Request{Chart: "git::https://h/r?depth=all"}, "depth="},
		"GitRef":          {chart.Request{Chart: "git::https://h/r?ref=a%0Ab"}, "ref="},
		"GitKey":          {chart.Request{Chart: "git::ssh://git@h/r?sshkey=canary*"}, "sshkey="},
		"ArchiveOut":      {chart.Request{Chart: "https://h/x.tgz//../../etc"}, "leads out"},
		"NoHost":          {chart.Request{Chart: "https:///x.tgz"}, "no host"},
		"ChecksumFile":    {chart.Request{Chart: "https://h/x?checksum=file:https://h/sums"}, "checksum=file:"},
		"ChecksumBare":    {chart.Request{Chart: "https://h/x?checksum=" + sum}, "checksum="},
		"ChecksumShort":   {chart.Request{Chart: "https://h/x?checksum=sha256:abcd"}, "64 hexadecimal"},
		"ChecksumKind":    {chart.Request{Chart: "https://h/x?checksum=crc32:00000000"}, "checksum="},
		"Format":          {chart.Request{Chart: "https://h/x?archive=rar"}, "archive="},
		"Shorthand":       {chart.Request{Chart: "github.com/org"}, "github.com/owner/repository"},
		"RepoIsGit":       {chart.Request{Repo: "git::https://h/r", Chart: "app"}, "https://"},
		"RepoIsFile":      {chart.Request{Repo: "file:///srv", Chart: "app"}, "https://"},
		"RepoNoHost":      {chart.Request{Repo: "https://", Chart: "app"}, "no host"},
		"RepoNoChart":     {chart.Request{Repo: "https://h"}, "helm.chart is empty"},
		"RepoChart":       {chart.Request{Repo: "https://h", Chart: "a\x00b"}, "control"},
		"RepoPassword":    {chart.Request{Repo: "ftp://u:canary@h", Chart: "app"}, "https://"},
		"OCIQuery":        {chart.Request{Repo: "oci://h/a?x=1"}, "no query"},
		"OCIUser":         {chart.Request{Repo: "oci://u:canary@h/a"}, "helmSecretName"},
		"OCIHost":         {chart.Request{Repo: "oci:///a"}, "oci://host/path"},
		"OCIName":         {chart.Request{Repo: "oci://h/A/B"}, "lower case"},
		"OCIDots":         {chart.Request{Repo: "oci://h/a/../b"}, "lower case"},
		"OCITags":         {chart.Request{Repo: "oci://h/a:1.0.0", Version: "2.0.0"}, "take one of them out"},
		"OCIDigest":       {chart.Request{Repo: "oci://h/a@sha256:abc"}, "64 hexadecimal"},
		"OCIDependency":   {chart.Request{Repo: "oci://h/a", Chart: "../b", Archive: true}, "lower case"},
		"Version":         {chart.Request{Repo: "https://h", Chart: "a", Version: "1\n2"}, "helm.version"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			l, err := chart.Locate(c.r)
			if !reconcile.IsTerminal(err) || !strings.Contains(err.Error(), c.text) || strings.ContainsAny(err.Error(), "\n\x1b\x00") || len(err.Error()) > 600 {
				t.Errorf("got %+v, %v; want %q", l, err, c.text)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("a secret is in the message: %v", err)
			}
		})
	}
}

func TestRedact(t *testing.T) {
	tests := map[string]string{
		"https://h/x.tgz": "https://h/x.tgz",
		"https://h:8443/a@b/x.tgz?ref=v1&checksum=a:b":  "https://h:8443/a@b/x.tgz?ref=v1&checksum=a:b",
		"https://u:canary@h/x?X-Amz-Signature=canary":   "https://u:xxxxx@h/x?X-Amz-Signature=xxxxx",
		"https://canary@h/x":                            "https://xxxxx@h/x",
		"git::https://u:canary@h/r//a?ref=b":            "git::https://u:xxxxx@h/r//a?ref=b",
		"git::ssh://git@h/r?sshkey=canary&ref=b":        "git::ssh://git@h/r?sshkey=xxxxx&ref=b",
		"git@h:org/r?sshkey=canary":                     "git@h:org/r?sshkey=xxxxx",
		"https://u:can/ary@h/x":                         "https://u:xxxxx@h/x",
		"https://u:can@ary@h/x":                         "https://u:xxxxx@h/x",
		"https://u:canary@h/%zz?SSHKEY=canary&a=canary": "https://u:xxxxx@h/%zz?SSHKEY=xxxxx&a=xxxxx",
		"u:canary@h:path":                               "u:xxxxx@h:path",
		"oci://h:5000/a@sha256:abc":                     "oci://h:5000/a@sha256:abc",
	}
	for in, want := range tests {
		if got := chart.Redact(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
