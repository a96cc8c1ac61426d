import { type Command, Option } from 'commander'
import type { ArtifactRef } from '../../schemas/artifact-ref.ts'
import type { HardwarePreference, OperatingMode, TrainingRunAccepted } from '../../schemas/training-run.ts'
import { filled } from '../arguments.ts'
import { artifactRef } from '../artifact-ref.ts'
import { type AccountContext, asAccount } from '../as-account.ts'
import { datasetId } from '../names.ts'
import { print, printStatus } from '../print.ts'
import { followToEnd } from '../runs/follow-to-end.ts'
import { parameter, type TypedParameters, valuesOf } from '../runs/parameters.ts'

interface TrainOptions {
  dataset: string
  param?: TypedParameters
  name?: string
  base?: ArtifactRef
  mode?: OperatingMode
  hardware?: HardwarePreference
  watch?: boolean
}

/** Starts a training run. */
export function trainCommand(train: Command): void {
  train
    .argument('<config>', 'what to train; `hearth models trainable` lists the configs')
    .requiredOption('--dataset <id or name>', 'what to train on')
    .option('-p, --param <name=value>', 'a hyperparameter (repeatable)', parameter)
    .option('--name <name>', 'name of the run (default: config and dataset)', filled)
    .option(
      '--base <ref>',
      'model to start from: version:<id>, run:<id>, hf:<owner/name> or s3://...',
      artifactRef,
    )
    .addOption(
      new Option('--mode <mode>', 'how much of a machine to use').choices(['eco', 'balanced', 'performance']),
    )
    .addOption(
      new Option('--hardware <kind>', 'where to run').choices([
        'auto',
        'cpu_only',
        'gpu_only',
        'gpu_preferred',
      ]),
    )
    .option('--watch', "show the run's loss curve on standard error until the run ends")
    .action(
      asAccount(async (context: AccountContext, config: string, options: TrainOptions) => {
        const { h, json } = context
        const { dataset, param, base, mode, hardware, watch } = options
        const name = options.name ?? `${config} on ${dataset}`
        const [dataset_id, hyperparameters] = await Promise.all([
          datasetId(h, dataset),
          valuesOf(h, config, param),
        ])
        const accepted = await h.runs.create({
          job_name: name,
          model_config_id: config,
          dataset_id,
          hyperparameters,
          ...(base && { base }),
          ...(mode && { operating_mode: mode }),
          ...(hardware && { hardware_preference: hardware }),
        })
        if (watch && !json) printStatus(accepted.message)
        if (watch) return followToEnd(context, { runId: accepted.job_id, name })
        print({ json }, accepted, formatAccepted(accepted))
      }),
    )
}

/** Describes the queue position of accepted work and how to follow it. */
export function formatAccepted({
  job_id,
  status,
  message,
  queue_position: ahead,
  estimated_cost_credits: cost,
}: TrainingRunAccepted): string {
  const price = cost === null ? '' : `, and costs about ${cost} credits`
  return `Run ${job_id} is ${status}, with ${ahead} ahead of it${price}.\n${message}\nFollow it with \`npx hearth runs logs -f ${job_id}\`.`
}
