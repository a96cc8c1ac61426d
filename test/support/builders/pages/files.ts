import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { blocksOf } from '../cohorts/cohorts-page.ts'
import { makeTinyLlm } from '../models/tiny-llm.ts'
import { tinySpecialist } from '../models/tiny-specialist.ts'

/** Writes the files that users supply for the pages' commands: small models, tables and a tool. */
export async function writeFilesOfPages(folder: string, apiKey: string): Promise<void> {
  await makeTinyLlm(join(folder, 'my-model'))
  await cp(await tinySpecialist(), join(folder, 'all-MiniLM-L6-v2'), { recursive: true })
  writeFileSync(join(folder, 'key.txt'), apiKey)
  writeFileSync(join(folder, 'sales.csv'), 'month,total\nMay,3\n')
  writeFileSync(join(folder, 'questions.jsonl'), questions())
  mkdirSync(join(folder, 'shout'))
  writeFileSync(join(folder, 'shout/tool.json'), tool())
}

/** Repeats the row from a comment in docs/models.md with varying text. */
function questions(): string {
  const [, row = ''] = /^# questions\.jsonl: (\{.*\})$/m.exec(readFileSync('docs/models.md', 'utf8')) ?? []
  const { anchor, positive } = JSON.parse(row) as { anchor: string; positive: string }
  const rows = Array.from({ length: 40 }, (_, n) => ({
    anchor: `${n} ${anchor}`,
    positive: `${n} ${positive}`,
  }))
  return rows.map((each) => `${JSON.stringify(each)}\n`).join('')
}

/** Returns the example of docs/tools.md with the digest of an image. */
function tool(): string {
  const example = blocksOf('json', 'docs/tools.md').find((text) => text.includes('"slug": "shout"'))
  return example!.replace('sha256:...', `sha256:${'0'.repeat(64)}`)
}
