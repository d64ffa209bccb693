#!/bin/sh
# Measures again what the Measure page shows of the default trunk: about ten minutes on two quiet cores, with nothing else running.
set -eu
cd "$(dirname "$0")/../.."
out=assets/results
python -m mtviz race --prompt "Explain to a child how rain forms." --num-draft-tokens 1 --json $out/race.json
python -m mtviz race --prompt "Count from 1 to 30, separated by commas." --num-draft-tokens 8 --json $out/race_count.json
python -m mtviz race --prompt "Write a strange poem." --num-draft-tokens 8 --rule speculative --temperature 1.5 --json $out/race_poem.json
python -m mtviz lab pass-cost --json $out/pass_cost.json
python -m mtviz lab lengths --json $out/lengths.json
python -m mtviz lab thresholds --json $out/thresholds.json
python -m mtviz lab footprint --json $out/footprint.json
python -m mtviz lab memory --json $out/memory.json
python -m mtviz lab growth --json $out/growth.json
python -m mtviz lab start-up --json $out/start_up.json
