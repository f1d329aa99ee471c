#!/usr/bin/env bash
# npm_file.sh PACKAGE MEMBER SHA256 FOLDER: one file of a package of npm, into FOLDER. It gets its
# name only when it is whole and right, so an interrupted run leaves nothing that looks finished;
# when it is there, nothing is done. The registry is whatever npm is configured with.
# The member `package` is all of its files; the sum is then that of the archive they come in.
set -euo pipefail

package=$1 member=$2 sum=$3 folder=$4
name=$(basename "$member")

say() { printf 'deps: %s\n' "$*"; }
die() { printf 'deps: %s\n' "$*" >&2; exit 1; }

# The sum of 70 MB takes 0.2 s, and this runs before every build: a stamp says it was done.
[[ -e $folder/$name && $(cat "$folder/$name.sha256" 2> /dev/null) == "$sum" ]] && exit
command -v npm > /dev/null || die "npm is missing, which fetches $package.
      Next: as root: apt-get install --no-install-recommends npm"
say "fetching $name ($package)"
mkdir -p "$folder"
work=$(mktemp -d "$folder/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent --no-update-notifier "$package" > /dev/null) ||
  die "npm pack $package failed. Next: look at what \`npm pack $package\` says"
archive=("$work"/*.tgz)
tar -xzf "${archive[0]}" -C "$work" "$member"
checked=$work/$member
[[ -d $checked ]] && checked=${archive[0]}
sha256sum --check --status <<< "$sum  $checked" ||
  die "$member of $package has another SHA-256 than expected: not used"
rm -rf "${folder:?}/$name"
mv "$work/$member" "$folder/$name"
echo "$sum" > "$folder/$name.sha256"
