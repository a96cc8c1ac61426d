import { type Command, InvalidArgumentError, Option } from 'commander'
import type { EndpointEngineFault as EngineFault } from '../../../schemas/endpoint.ts'
import type { Serving } from '../../../schemas/nodes/serving.ts'
import { filled, wholeNumber } from '../../arguments.ts'
import { asAccount } from '../../as-account.ts'
import { usageError } from '../../cli-error.ts'
import { print } from '../../print.ts'

interface ServingOptions {
  engine?: Serving['engine']
  maxModelLen?: number
  dtype?: Serving['dtype']
  quantization?: Serving['quantization']
  gpuMemoryMb?: number
  tensorParallel?: number
  speculative?: Serving['speculative']
  engineArg?: NonNullable<Serving['engine_args']>
  reset?: boolean
}

/** The command that shows and changes how nodes serve an endpoint's language model. */
export function servingCommand(endpoints: Command): void {
  endpoints
    .command('serving <endpoint>')
    .description("show or change how nodes serve an endpoint's language model, from their next load on")
    .addOption(
      new Option('--engine <engine>', 'auto: the best one of each node').choices([
        'auto',
        'transformers',
        'llama-server',
      ]),
    )
    .option(
      '--max-model-len <tokens>',
      'maximum number of tokens in the prompt and output combined',
      wholeNumber,
    )
    .addOption(
      new Option('--dtype <type>', 'type of the weights in memory').choices([
        'auto',
        'bfloat16',
        'float16',
        'float32',
      ]),
    )
    .addOption(
      new Option('--quantization <method>', 'quantize the weights when they are loaded').choices([
        'fp8',
        'bitsandbytes',
      ]),
    )
    .option('--gpu-memory-mb <mb>', 'GPU memory for weights and KV cache together', wholeNumber)
    .option('--tensor-parallel <gpus>', 'number of GPUs of one node that hold the model', wholeNumber)
    .option(
      '--speculative <method:tokens>',
      'draft this many tokens per step with ngram or mtp, such as ngram:4',
      speculativeOf,
    )
    .option('--engine-arg <name=value>', 'another argument of the engine; can be repeated', engineArgument)
    .option('--reset', 'return to the defaults, before the other options are applied')
    .action(
      asAccount(async ({ h, json }, given: string, { reset = false, ...options }: ServingOptions) => {
        const { serving: before, owned, name, engine_faults: faults = [] } = await h.endpoints.get(given)
        if (!owned) throw usageError(`${name} belongs to another account`)
        const change = servingOf(options)
        const isChange = reset || Object.keys(change).length > 0
        const kept = reset ? undefined : before
        const engine_args = { ...kept?.engine_args, ...change.engine_args }
        const merged = {
          ...kept,
          ...change,
          ...(Object.keys(engine_args).length > 0 && { engine_args }),
        }
        const serving = Object.keys(merged).length > 0 ? merged : null
        const after = isChange ? await h.endpoints.update(given, { serving }) : { serving: before }
        const lines = [formatServing(name, after.serving), ...faults.map(formatFault)]
        print({ json }, after.serving ?? null, lines.join('\n'))
      }),
    )
}

const servingOf = ({
  engine,
  maxModelLen,
  dtype,
  quantization,
  gpuMemoryMb,
  tensorParallel,
  speculative,
  engineArg,
}: ServingOptions): Serving => ({
  ...(engine && { engine }),
  ...(maxModelLen !== undefined && { max_model_len: maxModelLen }),
  ...(dtype && { dtype }),
  ...(quantization && { quantization }),
  ...(gpuMemoryMb !== undefined && { gpu_memory_mb: gpuMemoryMb }),
  ...(tensorParallel !== undefined && { tensor_parallel: tensorParallel }),
  ...(speculative && { speculative }),
  ...(engineArg && { engine_args: engineArg }),
})

/** Parses `method:tokens`. */
function speculativeOf(text: string): NonNullable<Serving['speculative']> {
  const [, method, tokens] = /^(ngram|mtp):(\d+)$/.exec(filled(text)) ?? []
  if ((method !== 'ngram' && method !== 'mtp') || tokens === undefined)
    throw new InvalidArgumentError('It must have the form ngram:4 or mtp:1.')
  return { method, num_speculative_tokens: Number(tokens) }
}

/** Parses `name=value`, or `name` for a switch, and adds it to the arguments given so far. */
function engineArgument(
  text: string,
  before: NonNullable<Serving['engine_args']> = {},
): NonNullable<Serving['engine_args']> {
  const [, given, value] = /^(?:--)?([a-z][a-z0-9_-]*)(?:=(.*))?$/s.exec(filled(text)) ?? []
  if (given === undefined) throw new InvalidArgumentError('It must have the form name=value, or name.')
  return { ...before, [given.replaceAll('_', '-')]: valueOf(value) }
}

function valueOf(text: string | undefined): string | number | boolean {
  if (text === undefined || text === 'true') return true
  if (text === 'false') return false
  return /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : text
}

function formatFault({ runtime_profile, error, served_by, retry_at }: EngineFault): string {
  const when = retry_at === null ? 'at the next load' : `at the first load after ${retry_at}`
  return `${runtime_profile} failed, so a node serves the model with ${served_by} and retries ${when}: ${error}`
}

function formatServing(name: string, serving: Serving | null | undefined): string {
  const settings = Object.entries(serving ?? {}).map(([field, value]) =>
    typeof value === 'object' ? `${field}: ${JSON.stringify(value)}` : `${field}: ${String(value)}`,
  )
  return settings.length > 0
    ? [`Nodes serve the model of ${name} with:`, ...settings.map((line) => `  ${line}`)].join('\n')
    : `Nodes serve the model of ${name} with the defaults.`
}
