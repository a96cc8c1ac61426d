import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { createProgram } from '../../cli/program.ts'

const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> }
const DOCUMENTS = [
  'README.md',
  'CONTRIBUTING.md',
  'Dockerfile',
  'docker-compose.yml',
  ...globSync('docs/**/*.md'),
]

/** What npm itself does, and what is said of npm. */
const OF_NPM = new Set(['cache', 'ci', 'install', 'packages', 'run'])

/** What a document tells its readers to type, by a pattern whose first group is the name of the command. */
const typed = (pattern: RegExp) =>
  DOCUMENTS.flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(pattern)].map(([, words = '']) => ({ file, words })),
  )

/** The first word that is no subcommand where one has to be; nothing when the command exists. */
function unknownWord(program: Command, words: readonly string[]): string | undefined {
  const [word, ...rest] = words
  if (program.commands.length === 0 || word === undefined || !/^[a-z][a-z-]*$/.test(word)) return undefined
  const found = program.commands.find(
    (command) => command.name() === word || command.aliases().includes(word),
  )
  return found ? unknownWord(found, rest) : word
}

describe('the commands that the documents name', () => {
  it('are scripts of package.json', () => {
    const named = typed(/\bnpm (?:run )?([a-z][a-z:-]*)/g).filter(({ words }) => !OF_NPM.has(words))

    assert.ok(named.length > 10)
    assert.deepEqual(
      named.filter(({ words }) => scripts[words] === undefined),
      [],
    )
  })

  it('are commands of hearth', () => {
    const program = createProgram()
    const named = typed(/\bnpx hearth((?: +[a-z][a-z-]*)+)/g)

    assert.ok(named.length > 5)
    assert.deepEqual(
      named.filter(({ words }) => unknownWord(program, words.trim().split(/ +/)) !== undefined),
      [],
    )
  })
})
