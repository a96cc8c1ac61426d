import { globSync } from 'node:fs'
import { blocksOf } from '../cohorts/cohorts-page.ts'

/** A command on a page, with the comment at the end of its last line. */
export interface Command {
  text: string
  comment: string
}

/** The pages whose commands users copy. */
export const PAGES: readonly string[] = [
  'README.md',
  'CONTRIBUTING.md',
  ...globSync('docs/{*,operations/*}.md').toSorted(),
]

/** Returns the commands in all of a page's `sh` blocks, in order. */
export const commandsOf = (page: string): Command[] => blocksOf('sh', page).flatMap(splitCommands)

/** Splits a block at the line breaks that end a command: those outside quotes and not after a backslash. */
export function splitCommands(block: string): Command[] {
  const commands: Command[] = []
  let text = ''
  for (const line of block.split('\n')) {
    text += line
    const { comment, continues } = scan(text)
    if (continues) {
      text += '\n'
      continue
    }
    const command = { text: text.slice(0, comment).trim(), comment: text.slice(comment).trim() }
    if (command.text !== '') commands.push(command)
    text = ''
  }
  if (text !== '') throw new Error(`unfinished command: ${text}`)
  return commands
}

/** Finds where a command's comment starts, and whether the command continues on the next line. */
function scan(text: string): { comment: number; continues: boolean } {
  let quote = ''
  for (let i = 0; i < text.length; i++) {
    const char = text.charAt(i)
    if (char === '\\' && quote !== "'") {
      i++
      if (i === text.length) return { comment: i, continues: true }
    } else if (quote !== '') {
      if (char === quote) quote = ''
    } else if (char === '"' || char === "'") quote = char
    else if (char === '#' && /^\s?$/.test(text.charAt(i - 1))) return { comment: i, continues: false }
  }
  return { comment: text.length, continues: quote !== '' }
}
