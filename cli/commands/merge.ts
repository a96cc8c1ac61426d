import { type Command, InvalidArgumentError, Option } from 'commander'
import type { ArtifactRef } from '../../schemas/artifact-ref.ts'
import type { MergeMethod } from '../../schemas/training-merge.ts'
import type { HardwarePreference } from '../../schemas/training-run.ts'
import { wholeNumber } from '../arguments.ts'
import { artifactRef, artifactRefs } from '../artifact-ref.ts'
import { type AccountContext, asAccount } from '../as-account.ts'
import { print } from '../print.ts'
import { followToEnd } from '../runs/follow-to-end.ts'
import { formatAccepted } from './train.ts'

interface MergeOptions {
  method: MergeMethod
  source?: ArtifactRef[]
  adapter?: ArtifactRef[]
  base?: ArtifactRef
  weight?: number[]
  density?: number
  seed?: number
  hardware?: HardwarePreference
  watch?: boolean
}

/** Merges models, or merges adapters into their base model. */
export function mergeCommand(merge: Command): void {
  merge
    .argument('<name>', 'name of the merge')
    .addOption(
      new Option('--method <method>', 'merge method')
        .choices(['adapter_merge', 'slerp', 'ties', 'dare'])
        .default('slerp'),
    )
    .option('--source <ref>', 'a model: version:<id>, run:<id>, hf:<owner/name> (repeatable)', artifactRefs)
    .option('--adapter <ref>', 'an adapter, for adapter_merge (repeatable)', artifactRefs)
    .option('--base <ref>', 'base model for the adapters or differences', artifactRef)
    .option('--weight <n>', 'weight of a source or adapter, in the same order (repeatable)', weights)
    .option('--density <share>', 'share of each difference that ties and dare keep', weight)
    .option('--seed <n>', 'random seed for dare', wholeNumber)
    .addOption(
      new Option('--hardware <kind>', 'where to run').choices([
        'auto',
        'cpu_only',
        'gpu_only',
        'gpu_preferred',
      ]),
    )
    .option('--watch', 'show progress on standard error until it ends')
    .action(
      asAccount(async (context: AccountContext, name: string, options: MergeOptions) => {
        const { method, source, adapter, base, weight: given, density, seed, hardware, watch } = options
        const accepted = await context.h.merges.create({
          name,
          method,
          ...(source && { sources: source }),
          ...(adapter && { adapters: adapter }),
          ...(base && { base }),
          ...(given && { weights: given }),
          ...(density !== undefined && { density }),
          ...(seed !== undefined && { seed }),
          ...(hardware && { hardware_preference: hardware }),
        })
        if (watch) return followToEnd(context, { runId: accepted.job_id, name })
        print(context, accepted, formatAccepted(accepted))
      }),
    )
}

function weight(text: string): number {
  if (/^-?\d{1,3}(\.\d+)?$/.test(text)) return Number(text)
  throw new InvalidArgumentError('Expected a number, such as 0.5.')
}

const weights = (text: string, earlier: number[] = []): number[] => [...earlier, weight(text)]
