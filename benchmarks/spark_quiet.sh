#!/usr/bin/env bash
# The tables of Spark for benchmarks/results, on a quiet machine: at most 25 minutes on two cores.
#
#     benchmarks/spark_quiet.sh [FOLDER]
#
# Makes the traces in FOLDER (build/spark-traces), unless they exist, and writes what benchmarks/spark.py,
# spark_scale.py and spark_stream.py print below a heading with the date, at the end of benchmarks/results/spark.md and
# spark_scale.md. The numbers of micro-batches are 60 with Spark and 110 without it.
set -euo pipefail
cd "$(dirname "$0")/.."
folder="$(mkdir -p "${1:-build/spark-traces}" && cd "${1:-build/spark-traces}" && pwd)"
export PYTHONPATH="$PWD"
python="$PWD/.venv/bin/python"
results="$PWD/benchmarks/results"
bounded() { timeout --signal=INT "$@" || echo; echo; } # seconds, then the command; a part that takes longer is cut

if [ ! -e "$folder/control.pcap" ]; then
    "$python" -c "
import sys
from pathlib import Path
sys.path[:0] = ['benchmarks', 'tests']
import capture
capture.make(Path(sys.argv[1]))" "$folder"
fi
{
    printf '\n## %s, %s\n\n' "$(date +%F)" "$(git rev-parse --short HEAD)"
    echo "Load at the start: $(cut -d' ' -f1 /proc/loadavg); $("$python" -m kwire --version)."
    echo
    bounded 300 "$python" benchmarks/spark.py "$folder"
    bounded 300 "$python" benchmarks/spark.py --session "$folder"
    bounded 300 "$python" benchmarks/spark.py --large "$folder"
    bounded 240 "$python" benchmarks/spark_stream.py 60 | grep -v '^| [0-9]*[1-9] |'
    bounded 120 "$python" benchmarks/spark_stream.py --states 110 | grep -v '^| [0-9]*[1-9] |'
} >>"$results/spark.md"
{
    printf '\n## %s, %s\n\n' "$(date +%F)" "$(git rev-parse --short HEAD)"
    bounded 240 "$python" benchmarks/spark_scale.py "$folder/scale" 8
} >>"$results/spark_scale.md"
