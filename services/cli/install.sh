#!/bin/sh
# Installs the packages of package-lock.json and says so every few seconds: npm is silent in a pipe.
# Leaves nothing half done: the caller marks the installation only when this ends well.
set -eu
command -v npm >/dev/null 2>&1 || {
  echo 'marketlog needs Node 20 or newer with npm to begin: https://nodejs.org' >&2
  exit 69
}
echo 'installing packages (npm ci)' >&2
npm ci --no-audit --no-fund --loglevel=error &
npm=$!
trap 'kill $npm 2>/dev/null || true; wait $npm || true; exit 130' INT TERM HUP
seconds=0
while kill -0 $npm 2>/dev/null; do
  sleep 1
  seconds=$((seconds + 1))
  [ $((seconds % 5)) -ne 0 ] || echo "installing packages (${seconds} s)" >&2
done
wait $npm
