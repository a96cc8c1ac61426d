import { isUtf8 } from 'node:buffer'
import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import type { Static } from 'typebox'
import { type AccountMemory, type ImportedMemory, MAX_MEMORY, MAX_IMPORTED } from '../../schemas/memory.ts'
import { CliError, usageError } from '../cli-error.ts'
import { open } from '../context.ts'
import { account, id } from '../ids.ts'
import { print, table } from '../print.ts'

/** Commands for the memory of accounts and the grants of their keys. */
export function memoryCommands(memory: Command): void {
  stateCommands(memory)
  grantCommands(memory)

  memory
    .command('import <file> [account_id]')
    .description('add entries, one per line: JSON objects with text, source and created_at, or plain text')
    .option('--source <source>', 'source for entries that have none', 'import')
    .action(
      async (file: string, accountId: string | undefined, options: { source: string }, command: Command) => {
        const context = open(command)
        const entries = readEntries(file, options.source)
        const path = `/accounts/${account(context, accountId)}/memory/import`
        const total = { imported: 0, already_present: 0 }
        for (let at = 0; at < entries.length; at += MAX_IMPORTED) {
          const part = entries.slice(at, at + MAX_IMPORTED)
          try {
            const body = { entries: part.map(({ entry }) => entry) }
            const done = await context.client.call<ImportedLine>('POST', path, body)
            total.imported += done.imported
            total.already_present += done.already_present
          } catch (err) {
            if (!(err instanceof CliError)) throw err
            const before = at > 0 ? `The first ${at} entries of ${file} were imported, then: ` : ''
            throw new CliError(before + faultOf(err, file, part), err.exitCode)
          }
        }
        const { imported, already_present: present } = total
        const others = present > 0 ? ` ${present} already existed.` : ''
        print(context, total, `Imported ${imported} entries.${others}`)
      },
    )
}

function stateCommands(memory: Command): void {
  memory
    .command('list')
    .alias('ls')
    .description('list the accounts that have memory')
    .action(async (_options: object, command: Command) => {
      const context = open(command)
      const list = await context.client.all<AccountMemory>('/memories', 'memories')
      const rows = list.map((one) => [one.account_id, stateOf(one), one.entries, one.grants.length])
      print(context, list, table(['ACCOUNT', 'STATE', 'ENTRIES', 'GRANTS'], rows))
    })
  for (const [verb, description, method, path] of [
    ['enable', 'enable memory for an account', 'POST', '/enable'],
    ['disable', 'disable memory; all entries are retained', 'POST', '/disable'],
    ['status', 'show the memory state and grants of an account', 'GET', ''],
  ] as const) {
    memory
      .command(`${verb} [account_id]`)
      .description(description)
      .action(async (accountId: string | undefined, _options: object, command: Command) => {
        const context = open(command)
        const chosen = account(context, accountId)
        const state = await context.client.call<AccountMemory>(method, `/accounts/${chosen}/memory${path}`)
        print(context, state, formatMemory(state))
      })
  }
  memory
    .command('delete <account_id>')
    .description('permanently delete the memory of an account: entries, snapshots and grants')
    .action(async (accountId: string, _options: object, command: Command) => {
      const context = open(command)
      await context.client.call('DELETE', `/accounts/${id(accountId)}/memory`)
      print(context, { account_id: accountId, deleted: true }, `Deleted the memory of ${accountId}.`)
    })
}

function grantCommands(memory: Command): void {
  memory
    .command('grant <key_id> <access>')
    .description('allow an API key to read or write the memory of its account')
    .action(async (keyId: string, given: string, _options: object, command: Command) => {
      const context = open(command)
      const path = `/keys/${id(keyId)}/memory-grants/${accessOf(given)}`
      const state = await context.client.call<AccountMemory>('PUT', path)
      print(context, state, `Key ${keyId} may ${given} the memory of ${state.account_id}.`)
    })
  memory
    .command('revoke <key_id> <access>')
    .description('revoke a grant; it takes effect before the command returns')
    .action(async (keyId: string, given: string, _options: object, command: Command) => {
      const context = open(command)
      await context.client.call('DELETE', `/keys/${id(keyId)}/memory-grants/${accessOf(given)}`)
      print(
        context,
        { key_id: keyId, access: given, revoked: true },
        `Key ${keyId} may no longer ${given} memory.`,
      )
    })
}

function accessOf(text: string): 'read' | 'write' {
  if (text === 'read' || text === 'write') return text
  throw usageError(`${JSON.stringify(text)} is not an access mode: use read or write`)
}

const stateOf = ({ enabled, ready, detail }: AccountMemory): string =>
  enabled ? (ready ? 'ready' : (detail ?? 'not ready')) : 'disabled'

function formatMemory(state: AccountMemory): string {
  const grants = state.grants.map(({ key_id, access }) => `  ${key_id} may ${access}`)
  return [
    `Memory of ${state.account_id}: ${stateOf(state)}, ${state.entries} entries.`,
    ...(grants.length > 0 ? grants : ['No key may use it yet: hearth memory grant <key_id> read|write']),
  ].join('\n')
}

type ImportedLine = Static<typeof ImportedMemory>

/** An entry as written in a line of the file. */
interface WrittenEntry {
  text: string
  source?: string
  created_at?: string
  superseded_by?: string | null
}

/** An entry as it is sent, with its line number in the file. */
interface ImportedEntry {
  line: number
  entry: Omit<WrittenEntry, 'superseded_by'>
}

/** Describes why the import was rejected, with the line of the first invalid entry. */
function faultOf({ issues, message }: CliError, file: string, entries: readonly ImportedEntry[]): string {
  for (const { loc, msg } of issues) {
    const [, list, index, ...field] = loc
    const refused = list === 'entries' ? entries[Number(index)] : undefined
    if (refused) return `${file}, line ${refused.line}: ${[field.join('.'), msg].filter(Boolean).join(': ')}`
  }
  return message
}

/** Control characters other than tabs and line breaks; no text file contains them. */
// oxlint-disable-next-line no-control-regex -- the expression looks for control characters
const CONTROL = /[\u0000-\u0008\u000E-\u001F\u007F]/

/** Reads a file of JSON lines or plain lines. Rejects invalid entries by line number before anything is sent. */
function readEntries(file: string, source: string): ImportedEntry[] {
  let bytes: Buffer
  try {
    bytes = readFileSync(file)
  } catch (err) {
    throw usageError(`${file} cannot be read: ${(err as Error).message}`)
  }
  if (!isUtf8(bytes)) throw usageError(`${file} is not UTF-8 text`)
  const content = bytes.toString()
  const entries = content.split('\n').flatMap((line, i) => {
    if (line.trim() === '') return []
    const entry = line.trimStart().startsWith('{') ? parsed(line, i) : { text: line.trim() }
    if (typeof entry.text !== 'string' || entry.text.trim() === '' || entry.text.length > MAX_MEMORY)
      throw usageError(`${file}, line ${i + 1}: the text must have 1 to ${MAX_MEMORY} characters`)
    if (CONTROL.test(entry.text)) throw usageError(`${file}, line ${i + 1}: contains control characters`)
    // Exports include superseded entries. They are never recalled, so don't import them.
    if (entry.superseded_by) return []
    const { text, created_at } = entry
    const sent = { text, source: entry.source ?? source, ...(created_at !== undefined && { created_at }) }
    return [{ line: i + 1, entry: sent }]
  })
  if (entries.length === 0) throw usageError(`${file} contains no entries`)
  return entries

  function parsed(line: string, i: number): WrittenEntry {
    try {
      return JSON.parse(line) as WrittenEntry
    } catch {
      throw usageError(`${file}, line ${i + 1}: is not JSON`)
    }
  }
}
