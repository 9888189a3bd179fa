#!/bin/sh
# kcat, which polls by itself and commits when it ends: sh recorded.sh SERVERS POLL_MS
set -e
for partition in 0 1; do
  for number in 0 2 4; do
    echo "order $((number + partition))"
  done | kcat -P -b "$1" -t orders -p "$partition" -X client.id=shop -X batch.num.messages=1
done
exec kcat -b "$1" -G billing -q -u -c 6 -X client.id=reader -X auto.offset.reset=earliest -X fetch.wait.max.ms="$2" orders
