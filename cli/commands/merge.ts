import { type Command, InvalidArgumentError, Option } from 'commander'
import type { ArtifactRef } from '../../schemas/artifact-ref.ts'
import type { MergeMethod } from '../../schemas/training-merge.ts'
import type { HardwarePreference } from '../../schemas/training-run.ts'
import { wholeNumber } from '../arguments.ts'
import { artifactRef, artifactRefs } from '../artifact-ref.ts'
import { type AccountContext, asAccount } from '../as-account.ts'
import { print } from '../print.ts'
import { followToEnd } from '../runs/follow-to-end.ts'
import { acceptedInWords } from './train.ts'

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

/** Merges models, or adapters into their base. */
export function mergeCommand(merge: Command): void {
  merge
    .argument('<name>', 'of the merge')
    .addOption(
      new Option('--method <method>', 'how')
        .choices(['adapter_merge', 'slerp', 'ties', 'dare'])
        .default('slerp'),
    )
    .option('--source <ref>', 'a model: version:<id>, run:<id>, hf:<owner/name> (repeat it)', artifactRefs)
    .option('--adapter <ref>', 'an adapter, for adapter_merge (repeat it)', artifactRefs)
    .option('--base <ref>', 'the model that adapters or differences are of', artifactRef)
    .option('--weight <n>', 'of a source or adapter, in their order (repeat it)', weights)
    .option('--density <share>', 'of each difference that ties and dare keep', weight)
    .option('--seed <n>', 'of dare', wholeNumber)
    .addOption(
      new Option('--hardware <kind>', 'where to run').choices([
        'auto',
        'cpu_only',
        'gpu_only',
        'gpu_preferred',
      ]),
    )
    .option('--watch', 'show it until it has ended; what is shown goes to standard error')
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
        print(context, accepted, acceptedInWords(accepted))
      }),
    )
}

function weight(text: string): number {
  if (/^-?\d{1,3}(\.\d+)?$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It has to be a number, such as 0.5.')
}

const weights = (text: string, earlier: number[] = []): number[] => [...earlier, weight(text)]
