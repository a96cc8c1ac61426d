import { message, type Prompt } from './prompt.ts'

export const mergeModels: Prompt = {
  name: 'merge_models',
  title: 'Merge two models',
  description: 'Combines two models of one architecture, or an adapter and its base, into one new model',
  arguments: [
    { name: 'first', description: 'A model: a version id, the id of a job, or a repository', required: true },
    { name: 'second', description: 'The other model', required: true },
    { name: 'purpose', description: 'What the merged model should be good at', required: false },
  ],
  get: ({ first = '', second = '', purpose }) =>
    message(`Merge the models ${first} and ${second} into one.${purpose ? ` It is to be good at this: ${purpose}.` : ''}

1. Find out what both are with list_training_runs and get_training_run: whole models or adapters, and their base.
2. Choose a method and say why: adapter_merge folds adapters into their base, slerp mixes two whole models of one architecture, ties and dare add what two or more sources have learned to a common base.
3. Start it with the tool training.merge (training_merge in some clients). It counts against the quota of training.
4. Look at get_training_run until its status is completed; if it has failed, its error names the first tensor that does not fit. Tell me then what would.
5. Serve the result with register_for_inference and ask it once with run_inference.`),
}
