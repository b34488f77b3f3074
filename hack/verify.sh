#!/usr/bin/env bash
# Generated files are what the generators make, the modules are tidy, and the
# layers hold. Needs Go and git; changes nothing but what is generated.
set -euo pipefail
cd "$(dirname "$0")/.."
fingerprint() { git ls-files -z -co --exclude-standard | xargs -0 sha256sum 2>/dev/null | sha256sum; }

before=$(fingerprint)
go run ./hack/generate
go mod tidy
(cd tools && go mod tidy)
(cd cmd/fleet-sandbox/kubernetes && go mod tidy)
if [ "$(fingerprint)" != "$before" ]; then
  git --no-pager diff --stat
  echo "verify: the lines above differ from what the generators and 'go mod tidy' make; commit them" >&2
  exit 1
fi
go test -count=1 ./hack/layers
echo "verify: ok"
