#!/bin/sh
# kcat in group `demo`: sh examples/connect_kcat.sh HOST:PORT
exec kcat -b "$1" -G demo -u -f '%p %o %s\n' -X auto.offset.reset=earliest orders
