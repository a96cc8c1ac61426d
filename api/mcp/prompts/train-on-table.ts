import { recentDatasets } from '../resources/dataset-rows.ts'
import { message, type Prompt } from './prompt.ts'

export const trainOnTable: Prompt = {
  name: 'train_on_table',
  title: 'Train a model on this table',
  description: 'Trains a model that predicts one column of a table, makes it callable and calls it once',
  arguments: [
    { name: 'table', description: 'A dataset of yours by name or id, or a file to upload', required: true },
    { name: 'target', description: 'The column to predict', required: true },
    { name: 'goal', description: 'What the predictions are for', required: false },
  ],
  async complete(argument, on) {
    return argument === 'table' ? (await recentDatasets(on)).map(({ dataset_name }) => dataset_name) : []
  },
  get: ({ table = '', target = '', goal }) =>
    message(`Train a model on the table ${table} that predicts its column ${target}.${goal ? ` It is for this: ${goal}.` : ''}

1. Find the table with list_datasets. If it is not there, create_dataset, tell me how to upload the file, and wait until it is ready. Read its first rows (hearth://datasets/{dataset_id}/rows).
2. Choose a model config with list_trainable_models: one for numbers if ${target} holds numbers, one for classes if it holds names. Read its hyperparameters with get_model_schema, and set the target column.
3. Start it with create_training_run. Look at get_training_run until its status is completed; if it has failed, read get_training_logs and tell me what to change.
4. Report what get_training_metrics says, in words that I can judge the model by.
5. Serve it with register_for_inference, ask it once with run_inference for a row of the table, and compare the answer with the true value.`),
}
