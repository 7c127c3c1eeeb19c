#!/bin/sh
# Compiles what a node runs into NUMBA_CACHE_DIR: two nodes find the barycenter of their samples, and so does one
# machine that has both.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
printf 'x\n-1\n0\n' >a.csv
printf 'x\n0\n2\n' >b.csv
barymesh network create net --support 20:-3:3 --reg 0.3 --node "a=ipc://$place/a" --node "b=ipc://$place/b"
barymesh node net/kits/a --data a.csv &
barymesh node net/kits/b --data b.csv
wait $!
barymesh barycenter a.csv b.csv --support 20:-3:3 --reg 0.3 -o both
