#!/bin/sh
# Moves servers in from another panel without anybody at a terminal: test, plan, start, verify, report.
#
#   PANEL_URL, PANEL_TOKEN        the panel that servers come to, and a key of an administrator
#   SOURCE_URL                    the panel that they come from
#   PANEL_MIGRATION_KEY           its application key
#   PANEL_MIGRATION_CLIENT_KEY    an administrator's account key of it
#   MAP_FILE                      which node goes where; docs/migration.md says what it may hold
#   OUT_DIR                       where the plan, the events and the report are left (default: migration)
#   TIME_LIMIT                    how long to wait for the move (default: 6h)
#
# It ends with 0 when nothing failed and what came is the same on both sides (the report has what was left out, and why), with 3 when
# single things failed or differ, with 75 when it is worth while to run it again as it is, and else with what the command that failed
# has ended with.
set -u

: "${SOURCE_URL:?is not set}" "${MAP_FILE:?is not set}"
out=${OUT_DIR:-migration}
limit=${TIME_LIMIT:-6h}
again=75
umask 077
mkdir -p "$out" || exit 2

say() { echo "ci-migration: $*" >&2; }

# 1. Does the source answer, and may the keys do what is needed?
panel migration test --url "$SOURCE_URL" -o json > "$out/source.json"
code=$?
case $code in
  0) ;;
  8) say "the address or the keys are wrong; nothing was changed"; exit 8 ;;
  9 | 11 | 13) say "the source or the panel does not answer now"; exit $again ;;
  *) say "the test has ended with $code"; exit $code ;;
esac

# 2. What would come? A conflict is for a person to decide.
panel migration plan --url "$SOURCE_URL" --map-file "$MAP_FILE" --out "$out/plan.json" -o json > "$out/plan-shown.json"
code=$?
case $code in
  0) ;;
  7) say "another migration is under way"; exit $again ;;
  8) say "something is in the way: $out/plan.json lists it under conflicts"; exit 8 ;;
  11 | 12 | 13) say "the source, a node or the panel is away"; exit $again ;;
  *) say "the plan has ended with $code"; exit $code ;;
esac

# 3. That plan, or none. The events go to a file, of which the last line is the result.
panel migration start --plan "$out/plan.json" --wait --timeout "$limit" -o jsonl > "$out/events.jsonl"
moved=$?
job=$(sed -n 's/^{"type":"migration_job","job":{"id":"\(mig_[0-9a-z]*\)".*/\1/p' "$out/events.jsonl" | head -n 1)
case $moved in
  0) ;;
  3) say "single things have failed: panel migration steps $job --failed" ;;
  7) say "another migration is under way"; exit $again ;;
  8) say "the source or this panel has changed since the plan was made"; exit $again ;;
  11) say "the migration has failed or was cancelled: panel migration view $job"; exit 11 ;;
  12) say "a node is offline"; exit $again ;;
  14) say "the panel has no credential key (PANEL_CREDENTIAL_KEY), so it keeps no keys of others"; exit 14 ;;
  124) say "it goes on; panel migration watch $job waits for it"; exit 124 ;;
  *) say "the start has ended with $moved"; exit $moved ;;
esac

# 4. Is it the same on both sides? The source is asked again, and each file that came is read again.
panel migration verify "$job" --wait --timeout "$limit" -o jsonl > "$out/verify.jsonl"
same=$?
case $same in
  0) ;;
  3) say "what came differs from the source: the last line of $out/verify.jsonl lists it" ;;
  *) say "the comparison has ended with $same"; exit $same ;;
esac

# 5. For people, and for the next program.
panel migration report "$job" --format markdown --out "$out/report.md" || exit
panel migration report "$job" --format json --out "$out/report.json" || exit

if [ $moved -ne 0 ] || [ $same -ne 0 ]; then exit 3; fi
say "nothing has failed; $out/report.md says what was left out, and what to do next"
