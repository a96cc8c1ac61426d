import type { Command } from 'commander'
import { HearthError, type Hearth } from '../../client/index.ts'
import { isUuid } from '../../domain/uuid.ts'
import type { ModelConfigDetail } from '../../schemas/model-config.ts'
import type { Lineage } from '../../schemas/model.ts'
import { size } from '../amounts.ts'
import { filled, wholeNumber } from '../arguments.ts'
import { asAccount } from '../as-account.ts'
import { usageError } from '../cli-error.ts'
import { pullRun } from '../models/pull.ts'
import { modelId } from '../names.ts'
import { print, table } from '../print.ts'

/** Commands for the account's models and for trainable configs. */
export function modelCommands(models: Command): void {
  models
    .command('ls')
    .alias('list')
    .description('list the models of the account')
    .option('--limit <n>', 'maximum number of models', wholeNumber, 50)
    .action(
      asAccount(async ({ h, json }, { limit }: { limit: number }) => {
        const list = await h.models.list({ limit: Math.min(100, limit) }).all(limit)
        const rows = list.map((one) => [
          one.model_id,
          one.name,
          one.version_count,
          one.latest_version?.version_id,
          one.latest_version && size(one.latest_version.size_bytes),
          one.created_at,
        ])
        print({ json }, list, table(['MODEL', 'NAME', 'VERSIONS', 'LATEST VERSION', 'SIZE', 'CREATED'], rows))
      }),
    )

  models
    .command('create <name>')
    .description('register the result of a run as a model')
    .requiredOption('--run <id>', 'the run that produced it', filled)
    .action(
      asAccount(async ({ h, json }, name: string, { run }: { run: string }) => {
        const model = await h.models.create({ name, job_id: run })
        print({ json }, model, `Model ${model.model_id} (${model.name}).`)
      }),
    )

  models
    .command('show <model>')
    .alias('get')
    .description('show the versions of a model and what uses them, by id or name')
    .action(
      asAccount(async ({ h, json }, given: string) => {
        const model = await modelId(h, given)
        const [found, versions, usage] = await Promise.all([
          h.models.get(model),
          h.models.versions(model).all(),
          h.models.usage(model),
        ])
        const rows = versions.map((one) => [
          one.version_id,
          one.name,
          one.lifecycle_status,
          one.model_config_id,
          one.job_id,
          size(one.size_bytes),
          one.created_at,
        ])
        const endpoints = usage.endpoints.map(({ name, status }) => `${name} (${status})`)
        const words = [
          `Model ${found.model_id} (${found.name}), ${found.version_count} versions.`,
          '',
          table(['VERSION', 'NAME', 'LIFECYCLE', 'CONFIG', 'RUN', 'SIZE', 'CREATED'], rows),
          '',
          `Served by ${endpoints.join(', ') || 'no endpoint'}.`,
        ]
        print({ json }, { ...found, versions, usage }, words.join('\n'))
      }),
    )

  models
    .command('pull <model_or_run>')
    .description('download the files of a trained model, by model id, model name or run id')
    .option('--to <folder>', 'target folder (default: a folder with that name)', filled)
    .action(
      asAccount(async ({ h, json }, given: string, { to = given }: { to?: string }) => {
        const files = await pullRun(h, await runOf(h, given), to)
        const fresh = files.filter(({ isNew }) => isNew).length
        print({ json }, files, `${files.length} files in ${to}, ${fresh} of them new.`)
      }),
    )

  models
    .command('lineage <model>')
    .description('show the lineage of a model, by id or name')
    .action(
      asAccount(async ({ h, json }, given: string) => {
        const lineage = await h.models.lineage(await modelId(h, given))
        print({ json }, lineage, formatLineage(lineage))
      }),
    )

  models
    .command('trainable [config]')
    .description('list the trainable configs, or show the hyperparameters of one')
    .action(
      asAccount(async ({ h, json }, config: string | undefined) => {
        if (config !== undefined) {
          const detail = await h.modelConfigs.get(config)
          return print({ json }, detail, formatModelConfig(detail))
        }
        const { model_configs: list } = await h.modelConfigs.list({ active_only: true })
        const rows = list.map((one) => [
          one.model_id,
          one.task_type,
          one.requires_gpu ? 'GPU' : 'CPU',
          one.display_name,
        ])
        print({ json }, list, table(['CONFIG', 'TASK', 'RUNS ON', 'NAME'], rows))
      }),
    )
}

function formatModelConfig(config: ModelConfigDetail): string {
  const rows = config.user_configurable_params.map((one) => [
    one.name,
    one.type,
    JSON.stringify(one.default),
    one.description,
  ])
  return `${config.display_name}: ${config.description}\n\n${table(['PARAMETER', 'TYPE', 'DEFAULT', 'MEANING'], rows)}`
}

/** Returns the run that produced the newest version of a model; a run id is returned as it is. */
async function runOf(h: Hearth, given: string): Promise<string> {
  const model = await modelId(h, given)
  try {
    const { latest_version: version, name } = await h.models.get(model)
    if (version?.job_id) return version.job_id
    throw usageError(`${name} has no version from a run; get imported files from their origin`)
  } catch (err) {
    if (err instanceof HearthError && err.code === 'not_found' && isUuid(given)) return given
    throw err
  }
}

/** Draws the lineage of a model as a tree, each item with its origins below it. */
function formatLineage({ nodes, edges }: Lineage): string {
  const made = nodes.filter(({ id }) => !edges.some(({ from }) => from === id))
  return made.flatMap(({ id }) => tree(id, '', new Set())).join('\n')

  function tree(id: string, indent: string, above: ReadonlySet<string>): string[] {
    const node = nodes.find((one) => one.id === id)
    const line = node ? `${node.type} ${node.label}` : id
    const below = above.has(id) ? [] : edges.filter(({ to }) => to === id)
    return [
      line,
      ...below.flatMap(({ from, relation }, i) => {
        const isLast = i === below.length - 1
        const [first = '', ...rest] = tree(from, indent, new Set([...above, id]))
        const inner = rest.map((text) => `${isLast ? '   ' : '|  '}${text}`)
        return [`${isLast ? '`' : '|'}- ${relation.replaceAll('_', ' ')}: ${first}`, ...inner]
      }),
    ]
  }
}
