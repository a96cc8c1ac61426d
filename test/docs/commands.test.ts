import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { wholeProgram } from '../../cli/program.ts'

const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> }
const DOCUMENTS = [
  'README.md',
  'CONTRIBUTING.md',
  'Dockerfile',
  'docker-compose.yml',
  ...globSync('docs/**/*.md'),
]

/** Commands of npm itself, and words that follow "npm" in prose. */
const OF_NPM = new Set(['cache', 'ci', 'install', 'packages', 'run'])

/** Returns the commands in the documents that match a pattern whose first group is the command's name. */
const typed = (pattern: RegExp) =>
  DOCUMENTS.flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(pattern)].map(([, words = '']) => ({ file, words })),
  )

/** Returns the first word that isn't an existing subcommand; undefined if the command exists. */
function unknownWord(program: Command, words: readonly string[]): string | undefined {
  const [word, ...rest] = words
  if (program.commands.length === 0 || word === undefined || !/^[a-z][a-z-]*$/.test(word)) return undefined
  const found = program.commands.find(
    (command) => command.name() === word || command.aliases().includes(word),
  )
  return found ? unknownWord(found, rest) : word
}

describe('commands named in the documentation', () => {
  it('exist as scripts in package.json', () => {
    const named = typed(/\bnpm (?:run )?([a-z][a-z:-]*)/g).filter(({ words }) => !OF_NPM.has(words))

    assert.ok(named.length > 10)
    assert.deepEqual(
      named.filter(({ words }) => scripts[words] === undefined),
      [],
    )
  })

  it('exist as hearth commands', async () => {
    const program = await wholeProgram()
    const named = [
      ...typed(/\bnpx hearth((?: +[a-z][a-z-]*)+)/g),
      ...typed(/^(?:[A-Z]+=\$\()?hearth((?: +[a-z][a-z-]*)+)/gm),
    ]

    assert.ok(named.length > 5)
    assert.deepEqual(
      named.filter(({ words }) => unknownWord(program, words.trim().split(/ +/)) !== undefined),
      [],
    )
  })
})
