import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { Argument, type Command } from 'commander'
import { request } from 'undici'
import { IMPORT_TASK_TYPES, importProblem, profileForImport } from '../../domain/models/import.ts'
import type {
  CompleteModelImport,
  ImportedModel,
  ModelImportStarted,
  StartModelImport,
} from '../../schemas/model-import.ts'
import type { RegistryEntry } from '../../schemas/model.ts'
import type { AdminClient } from '../admin-client.ts'
import { CliError, usageError } from '../cli-error.ts'
import { open } from '../context.ts'
import { endpointName } from '../endpoint-name.ts'
import { account, id } from '../ids.ts'
import { filesBelow, type LocalPath, readFacts } from '../local-model.ts'
import { print } from '../print.ts'

interface ImportOptions {
  name: string
  path: string
  task: string
  /** The runtime profile; by default the one that matches the files. */
  profile?: string
}

interface ImportCommandOptions extends Omit<ImportOptions, 'profile'> {
  runtimeProfile?: string
  account?: string
}

/** Commands that import models from the local disk and manage hub imports. */
export function importCommands(models: Command): void {
  models
    .command('lifecycle <model_config_id>')
    .addArgument(new Argument('<status>').choices(['candidate', 'ready', 'preferred', 'disabled']))
    .description(
      'operators: set the lifecycle of a hub import of any account: candidate, ready, preferred or disabled',
    )
    .option('--reason <text>', 'the reason; required for disabled')
    .action(async (modelId: string, status: string, { reason }: { reason?: string }, command: Command) => {
      const context = open(command)
      const body = { lifecycle_status: status, ...(reason !== undefined && { reason }) }
      const path = `/hub-models/${id(modelId)}/lifecycle`
      const moved = await context.client.call<RegistryEntry>('PATCH', path, body)
      print(context, moved, `${moved.model_name} is ${moved.lifecycle_status}.`)
    })
  models
    .command('import')
    .description('operators: import a Hugging Face model folder or a GGUF file, and serve it as an endpoint')
    .requiredOption('--name <name>', 'name of the endpoint', endpointName)
    .requiredOption('--path <path>', 'the folder or the .gguf file')
    .option('--task <type>', `task type: ${IMPORT_TASK_TYPES.join(', ')}`, 'chat')
    .option(
      '--runtime-profile <id>',
      'runtime profile that serves it (default: the one that matches the files)',
    )
    .option('--account <id>', 'the account that owns it (default: the account of the local platform)')
    .action(async (options: ImportCommandOptions, command: Command) => {
      const context = open(command)
      const { name, path, task, runtimeProfile } = options
      const imported = await importModel(context.client, {
        name,
        path,
        task,
        ...(runtimeProfile !== undefined && { profile: runtimeProfile }),
        accountId: account(context, options.account),
      })
      const text = `Endpoint ${imported.name} (${imported.endpoint_id}) serves it with ${imported.runtime_profile}.`
      print(context, imported, text)
    })
}

interface LocalFile extends LocalPath {
  size_bytes: number
  sha256: string
}

/**
 * Uploads the files of a model, then creates a version and an endpoint. Rejects models that can't serve before
 * uploading.
 */
export async function importModel(
  client: Pick<AdminClient, 'call'>,
  { name, path, task, profile, accountId }: ImportOptions & { accountId: string },
): Promise<ImportedModel> {
  const paths = await filesBelow(path)
  const chosen =
    profile ??
    profileForImport(
      task,
      paths.map((file) => file.path),
    )
  if (chosen === undefined) {
    throw usageError(`Unknown task type ${task}; known: ${IMPORT_TASK_TYPES.join(', ')}.`)
  }
  const problem = importProblem(task, chosen, readFacts(paths))
  if (problem !== undefined) throw usageError(problem)
  const started: StartModelImport = {
    account_id: accountId,
    paths: paths.map((file) => file.path),
    task_type: task,
    runtime_profile: chosen,
  }
  const { version_id, uploads } = await client.call<ModelImportStarted>('POST', '/model-imports', started)
  const files = await Promise.all(paths.map(measured))
  for (const { path: target, url, content_type } of uploads) {
    const file = files.find((one) => one.path === target)
    if (file) await put(file, url, content_type)
  }
  const body: CompleteModelImport = {
    account_id: accountId,
    name,
    task_type: task,
    runtime_profile: chosen,
    files: files.map(({ path: file, size_bytes, sha256 }) => ({ path: file, size_bytes, sha256 })),
  }
  return client.call('POST', `/model-imports/${version_id}:complete`, body)
}

async function measured({ from, path }: LocalPath): Promise<LocalFile> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(from), hash)
  return { path, from, size_bytes: (await stat(from)).size, sha256: hash.digest('hex') }
}

async function put({ from, path, size_bytes }: LocalFile, url: string, type: string): Promise<void> {
  const { statusCode, body } = await request(url, {
    method: 'PUT',
    headers: { 'content-type': type, 'content-length': String(size_bytes) },
    body: createReadStream(from),
  })
  const text = await body.text()
  if (statusCode >= 300) throw new CliError(`${path} was refused (${statusCode}): ${text.slice(0, 200)}`)
}
