#!/usr/bin/env bash
# Puts uPlot, which draws the charts of the web page, into web/vendor: its script and its style
# sheet as npm has them. What lies in web/ is embedded into probingd; web/vendor is not committed.
set -euo pipefail
cd "$(dirname "$0")/.."

PACKAGE=uplot@1.6.32
DOWNLOADS=build/deps/uplot

# fetch MEMBER SHA256
fetch() {
  local name
  name=$(basename "$1")
  tools/npm_file.sh "$PACKAGE" "$1" "$2" "$DOWNLOADS"
  mkdir -p web/vendor
  cmp -s "$DOWNLOADS/$name" "web/vendor/$name" || cp "$DOWNLOADS/$name" web/vendor/
}

fetch package/dist/uPlot.iife.min.js 19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f
fetch package/dist/uPlot.min.css df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04
