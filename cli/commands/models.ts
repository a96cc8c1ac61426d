import { createHash } from 'node:crypto'
import { closeSync, createReadStream, openSync, readSync, statSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { basename, join, relative, sep } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { Argument, type Command } from 'commander'
import { request } from 'undici'
import { GGUF_HEAD_BYTES, ggufProblem, readGgufHead } from '../../domain/hub/gguf.ts'
import { taskTypesOfKind } from '../../domain/task-types/index.ts'
import type { CompleteModelImport, ImportedModel, ModelImportStarted } from '../../schemas/model-import.ts'
import type { RegistryEntry } from '../../schemas/model.ts'
import type { AdminClient } from '../admin-client.ts'
import { endpointName } from '../arguments.ts'
import { CliError, usageError } from '../cli-error.ts'
import type { Context } from '../context.ts'
import { print } from '../print.ts'
import { account, id } from './accounts.ts'

type Open = (command: Command) => Context

interface ImportOptions {
  name: string
  path: string
  task: string
  profile?: string
  account?: string
}

/** Models from this machine's disk, and models that accounts import from the hub. */
export function modelCommands(program: Command, open: Open): void {
  const models = program
    .command('models')
    .description('import models, move hub imports along their lifecycle')
  models
    .command('lifecycle <model_config_id>')
    .addArgument(new Argument('<status>').choices(['candidate', 'ready', 'preferred', 'disabled']))
    .description('move the hub import of any account: candidate, ready, preferred or disabled')
    .option('--reason <text>', 'why; required for disabled')
    .action(async (modelId: string, status: string, { reason }: { reason?: string }, command: Command) => {
      const context = open(command)
      const body = { lifecycle_status: status, ...(reason !== undefined && { reason }) }
      const path = `/hub-models/${id(modelId)}/lifecycle`
      const moved = await context.client.call<RegistryEntry>('PATCH', path, body)
      print(context, moved, `${moved.model_name} is ${moved.lifecycle_status}.`)
    })
  models
    .command('import')
    .description('make a folder in the Hugging Face format, or a GGUF file, a model that can be asked')
    .requiredOption('--name <name>', 'of the endpoint', endpointName)
    .requiredOption('--path <path>', 'the folder or the .gguf file')
    .option('--task <type>', 'task type', 'chat')
    .option('--profile <id>', 'runtime profile; by default what fits the files')
    .option('--account <id>', 'the account it belongs to; by default that of the platform running here')
    .action(async (options: ImportOptions, command: Command) => {
      const context = open(command)
      const imported = await importModel(context.client, {
        ...options,
        accountId: account(context, options.account),
      })
      const text = `Endpoint ${imported.name} (${imported.endpoint_id}) serves it with ${imported.runtime_profile}.`
      print(context, imported, text)
    })
}

interface LocalFile {
  path: string
  from: string
  size_bytes: number
  sha256: string
}

/** Uploads the files of a model and makes them a version with an endpoint. */
export async function importModel(
  client: Pick<AdminClient, 'call'>,
  { name, path, task, profile, accountId }: Omit<ImportOptions, 'account'> & { accountId: string },
): Promise<ImportedModel> {
  const files = await filesBelow(path)
  const { version_id, uploads } = await client.call<ModelImportStarted>('POST', '/model-imports', {
    account_id: accountId,
    paths: files.map((file) => file.path),
  })
  for (const { path: target, url, content_type } of uploads) {
    const file = files.find((one) => one.path === target)
    if (file) await put(file, url, content_type)
  }
  const body: CompleteModelImport = {
    account_id: accountId,
    name,
    task_type: task,
    runtime_profile: profile ?? profileFor(files, task),
    files: files.map(({ path: file, size_bytes, sha256 }) => ({ path: file, size_bytes, sha256 })),
  }
  return client.call('POST', `/model-imports/${version_id}:complete`, body)
}

/** Weights as pickles can run code when they are loaded, so they are not uploaded. */
const LEFT_OUT = /(^|\/)\.|\.(bin|pt|pth|pkl|ckpt|py)$/

async function filesBelow(path: string): Promise<LocalFile[]> {
  const info = statSync(path, { throwIfNoEntry: false })
  if (!info) throw usageError(`There is nothing at ${path}.`)
  if (info.isFile()) return [await localFile(path, basename(path))]
  const names = await readdir(path, { recursive: true, withFileTypes: true })
  const files = names
    .filter((entry) => entry.isFile() || entry.isSymbolicLink())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((from) => ({ from, path: relative(path, from).split(sep).join('/') }))
    .filter((file) => !LEFT_OUT.test(file.path))
  if (files.length === 0) throw usageError(`There are no files of a model in ${path}.`)
  return Promise.all(files.map(({ from, path: name }) => localFile(from, name)))
}

async function localFile(from: string, path: string): Promise<LocalFile> {
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

/** The runtime profiles of specialists, by their task. */
const SPECIALIST_PROFILES = new Map([
  ...['embeddings', 'rerank', 'moderation', 'classification'].map(
    (task) => [task, 'specialist-onnx'] as const,
  ),
  ['translation', 'specialist-torch'],
  ['ocr', 'specialist-torch'],
  ['stt', 'specialist-whisper'],
])

/** Tasks of models that make files. */
const GENERATIVE_TASKS = new Set(taskTypesOfKind('generative'))

function profileFor(files: readonly LocalFile[], task: string): string {
  const has = (pattern: RegExp) => files.some(({ path }) => pattern.test(path))
  if (task === 'embeddings' || task === 'rerank') {
    const gguf = files.find(({ path }) => path.endsWith('.gguf'))
    if (gguf && !has(/\.(?:safetensors|onnx)$/)) return ggufProfile(gguf, task)
  }
  const specialist = SPECIALIST_PROFILES.get(task)
  if (specialist !== undefined) {
    if (has(/^config\.json$/)) return specialist
    throw usageError(`There is no config.json in it, which a model for ${task} needs.`)
  }
  if (GENERATIVE_TASKS.has(task)) {
    if (has(/^model_index\.json$/) || has(/^config\.json$/)) return 'generative-torch'
    throw usageError(`There is no model_index.json or config.json in it, which a model for ${task} needs.`)
  }
  if (has(/\.gguf$/)) return 'llm-llamacpp'
  if (has(/(^|\/)config\.json$/)) return 'llm-transformers'
  throw usageError('Neither a .gguf file nor a config.json is there: say with --profile what runs it.')
}

/** A GGUF says in its head whether it is for the task. */
function ggufProfile({ path, from }: LocalFile, task: 'embeddings' | 'rerank'): string {
  const bytes = Buffer.alloc(GGUF_HEAD_BYTES)
  const file = openSync(from, 'r')
  const count = readSync(file, bytes)
  closeSync(file)
  const head = readGgufHead(bytes.subarray(0, count))
  const problem = head ? ggufProblem(task, head) : `${path} is no GGUF.`
  if (problem !== undefined) throw usageError(problem)
  return 'specialist-llamacpp'
}
