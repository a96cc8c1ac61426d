import { mkdir, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { readConfig } from '../platform/config.ts'
import { writeTinyGguf } from './demo/tiny-gguf.ts'
import { randomWords, writeWordModel } from './demo/word-vectors.ts'
import { explain, UsageError } from './options.ts'

const HELP = `npm run tiny-models [-- folder]

Writes the small models of docs/cohorts.md, by default to tiny/ in the data directory (HEARTH_DATA_DIR): four language
models with one sentence each, two encoders with the same few words, and labelled texts made of these words.
`
/** The language models' responses, as tokens. */
const SENTENCES: Readonly<Record<string, readonly string[]>> = {
  'draft-a': ['It is', ' on its', ' way.'],
  'draft-b': ['We are', ' looking', ' for it.'],
  judge: ['Take', ' the first.'],
  reader: ['I have', ' read', ' all of', ' it,', ' and go', ' on', ' here.'],
}
/** The vector size of each encoder. */
const ENCODERS: Readonly<Record<string, number>> = { old: 32, new: 48 }
const LABELS = {
  warm: ['red', 'orange', 'yellow', 'brown'],
  cold: ['blue', 'green', 'grey', 'violet'],
} as const
const THINGS = ['fox', 'dog', 'house', 'river', 'letter', 'number', 'capital', 'road', 'boat', 'coat']
const PLACES = ['here', 'there', 'at home', 'in the city', 'by the sea', 'on the hill']

/** Returns all 480 sentences that the words can form, each with the label of its color. */
function labelledTexts(): { text: string; label: string }[] {
  return Object.entries(LABELS).flatMap(([label, colours]) =>
    colours.flatMap((colour) =>
      THINGS.flatMap((thing) => PLACES.map((place) => ({ text: `the ${colour} ${thing} ${place}`, label }))),
    ),
  )
}

/** Writes the models and the sentences to a folder; existing files are replaced by identical ones. */
export async function writeTinyModels(folder: string): Promise<void> {
  const rows = labelledTexts()
  const texts = rows.map(({ text }) => text)
  await mkdir(folder, { recursive: true })
  for (const [name, answer] of Object.entries(SENTENCES))
    await writeTinyGguf(join(folder, `${name}.gguf`), { answer })
  for (const [name, width] of Object.entries(ENCODERS))
    await writeWordModel(join(folder, name), randomWords(texts, name, width))
  await writeFile(join(folder, 'texts.jsonl'), rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
}

async function main(): Promise<void> {
  const { folder, help } = parse(process.argv.slice(2))
  if (help) return console.log(HELP)
  const target = folder ?? join(readConfig().HEARTH_DATA_DIR, 'tiny')
  await writeTinyModels(target)
  const made = [
    ...Object.keys(SENTENCES).map((name) => `${name}.gguf`),
    ...Object.keys(ENCODERS),
    'texts.jsonl',
  ]
  console.log(`In ${relative('.', target) || '.'}: ${made.join(', ')}`)
}

function parse(args: string[]): { folder: string | undefined; help: boolean } {
  try {
    const help = { type: 'boolean', default: false } as const
    const { values, positionals } = parseArgs({ args, allowPositionals: true, options: { help } })
    if (positionals.length > 1) throw new Error('pass at most one folder')
    return { folder: positionals[0], help: values.help }
  } catch (err) {
    throw new UsageError(
      `${(err as Error).message.replace(/\. .*$/s, '')}. See npm run tiny-models -- --help.`,
    )
  }
}

if (import.meta.main)
  main().then(
    () => process.exit(0),
    (err: unknown) => process.exit(explain(err)),
  )
