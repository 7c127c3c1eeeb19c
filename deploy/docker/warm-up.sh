#!/bin/sh
# Compiles the kernels of a node into NUMBA_CACHE_DIR: two nodes find the barycenter of their samples, and so does one
# process with both files.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
printf 'x\n-1\n0\n' >a.csv
printf 'x\n0\n2\n' >b.csv
barymesh network create net --support 20:-3:3 --reg 0.3 --node "a=ipc://$folder/a" --node "b=ipc://$folder/b"
barymesh node net/kits/a --data a.csv &
barymesh node net/kits/b --data b.csv
wait $!
barymesh barycenter a.csv b.csv --support 20:-3:3 --reg 0.3 -o both
