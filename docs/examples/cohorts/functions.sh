# The curl calls of docs/cohorts.md, as functions for sh, bash and zsh: `. docs/examples/cohorts/functions.sh` in the folder
# of the checkout. They reach the platform that `npm start` keeps up.

# DATA: the data directory of the platform.
DATA=${HEARTH_DATA_DIR:-.hearth}

# ready FIELD: an address or a key of the platform.
ready() { field "$1" < "$DATA/ready.json"; }

# field NAME: a member of the JSON object on standard input. What lacks it is an error of the platform, and is shown.
field() {
  node -e "const body = JSON.parse(fs.readFileSync(0)); if (body.$1 === undefined) { console.error(body.error?.message ?? body); process.exit(1) } console.log(body.$1)"
}

# call PATH [CURL OPTIONS]: the Builder API.
call() {
  _path=$1; shift
  curl -s -H "X-API-Key: $(ready api_key)" "$(ready base_url)/api/builder/v1/$_path" "$@"
}

# endpoint NAME FIELD: a member of an endpoint, such as endpoint_id or version_id.
endpoint() { call "endpoints/$1" | field "$2"; }

# upload FILE: makes a dataset of a .csv or .jsonl file, and prints its id.
upload() { call datasets/upload -F "name=$(basename "$1")" -F "storage_format=${1##*.}" -F "file=@$1" | field dataset_id; }

# wait_for NAME "STATUS ..." COMMAND...: runs the command, which prints a JSON object, until its status is none of these. It
# says so at each new status, and every five seconds, on standard error.
wait_for() {
  _name=$1 _open=$2 _told='' _seconds=0
  shift 2
  while _status=$("$@" | field status) || return 1; do
    case " $_open " in *" $_status "*) ;; *) return 0 ;; esac
    if [ "$_status" != "$_told" ] || [ $((_seconds % 5)) -eq 0 ]; then echo "$_name: $_status, $_seconds s" >&2; fi
    _told=$_status
    sleep 1
    _seconds=$((_seconds + 1))
  done
}

# train NAME PROFILE FILE COLUMN: trains a model that predicts a column of a table, and serves it as the endpoint NAME.
train() {
  _run=$(call training/runs -H 'Content-Type: application/json' -d '{"job_name": "'"$1"'", "model_config_id": "'"$2"'",
    "dataset_id": "'"$(upload "$3")"'", "hyperparameters": {"target_column": "'"$4"'"}}' | field job_id) || return 1
  wait_for "$1" 'pending running' call "training/runs/$_run" || return 1
  _served=$(call "training/runs/$_run/register-for-inference" -H 'Content-Type: application/json' -d '{"name": "'"$1"'"}' | field name) || return 1
  echo "Endpoint $_served serves it."
}

# evaluator PATH [BODY]: the routes of evaluators (docs/cohorts-evaluator.md); with a body it posts.
evaluator() {
  curl -s -w '\n' -H "X-Cohort-Evaluator-Token: $(ready evaluator_token)" -H 'Content-Type: application/json' \
    "$(ready base_url)/api/v1/internal/cohort/evaluator/$1" ${2:+-d "$2"}
}

# measure BODY: a structured run; shows in the end what it found.
measure() {
  _run=$(evaluator structured-runs "$1" | field run_id) || return 1
  wait_for measure 'queued embedding fitting judging' evaluator "structured-runs/$_run" || return 1
  evaluator "structured-runs/$_run" | node -p "const { status, score, reasons } = JSON.parse(fs.readFileSync(0)); ({ status, score, reasons })"
}
