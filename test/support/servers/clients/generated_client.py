"""Uses a generated client as a caller would, and prints the parsed results as one line of JSON."""

import json
import sys

folder, base_url, key, run_id = sys.argv[1:]
sys.path.insert(0, folder)

# The generated package is on the path from here on.
from hearth_client import AuthenticatedClient  # noqa: E402
from hearth_client.api.datasets import create_dataset  # noqa: E402
from hearth_client.api.training import get_training_run, list_training_runs  # noqa: E402
from hearth_client.models import CreateDataset, TrainingRun  # noqa: E402

client = AuthenticatedClient(base_url=base_url, token=key, auth_header_name="X-API-Key", prefix="")
run = get_training_run.sync(run_id, client=client)
page = list_training_runs.sync(client=client, limit=1)
refused = create_dataset.sync(
    client=client, body=CreateDataset.from_dict({"dataset_name": "", "storage_format": "csv"})
)
unknown = get_training_run.sync("00000000-0000-0000-0000-000000000000", client=client)
assert isinstance(run, TrainingRun), run
print(
    json.dumps(
        {
            "run": [str(run.job_id), run.job_name, run.status, run.hyperparameters.to_dict()],
            "listed": [str(one.job_id) for one in page.runs],
            "refused": type(refused).__name__,
            "unknown": unknown.error.code,
        }
    )
)
