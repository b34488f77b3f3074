#!/usr/bin/env bash
# Checks the alerts of the chart with promtool, and runs their tests. Without promtool in
# PATH it unpacks the one of Debian's package prometheus into a temporary folder, without
# installing the package. Where neither is to be had it fails in CI, and passes elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! promtool=$(command -v promtool); then
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
  chmod 755 "$dir"
  if ! (cd "$dir" && { apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }; } && dpkg-deb -x prometheus_*.deb .); then
    echo "alerts: promtool is not in PATH, and apt cannot download it" >&2
    [ -z "${CI:-}" ]
    exit
  fi
  promtool=$dir/usr/bin/promtool
fi
"$promtool" check rules charts/fleet/files/alerts.yaml
"$promtool" test rules charts/testdata/alerts.yaml
