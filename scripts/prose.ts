import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { goInstall } from '../embedded/processes/programs.ts'
import { readConfig } from '../platform/config.ts'

// `npm run prose [files]` checks how this project writes English: documents, comments, test titles, and the subjects of
// commits that are newer than the rules in `.vale/Hearth`. It prints one line per finding and exits with 1 if there are
// any.

/** The newest version that Go module proxies provide with all of its dependencies. */
const VALE = { module: 'github.com/vale-cli/vale/v3/cmd/vale', version: 'v3.22.0' }
/** The number of files per Vale run, which keeps the command line short enough for every system. */
const BATCH = 400
const TITLE = /\b(?:it|describe)\(\s*(['"`])(.+?)\1\s*,/g
const SQL_COMMENT = /^\s*-- (.+)$/gm

interface Finding {
  Line: number
  Check: string
  Message: string
}
type Findings = Record<string, Finding[]>
/** A piece of text that Vale wouldn't find by itself, and its location. */
interface TextPiece {
  file: string
  line: number
  text: string
}

/** Returns the path of Vale, which Go builds once per machine. Throws if Go is missing or the build fails. */
export async function provideVale(): Promise<string> {
  const program = join(readConfig().HEARTH_CACHE_DIR, `vale-${VALE.version}`, 'vale')
  if (!existsSync(program)) await goInstall(VALE.module, VALE.version, program, console.log)
  return program
}

const git = (...args: string[]): string[] =>
  execFileSync('git', args, { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
    .split('\n')
    .filter((line) => line !== '')

const lineAt = (text: string, at: number): number => text.slice(0, at).split('\n').length

/** Returns the titles of a test file, or the comments of an SQL file, whose syntax Vale doesn't know. */
function piecesOf(file: string): TextPiece[] {
  const text = readFileSync(file, 'utf8')
  const pattern = file.endsWith('.sql') ? SQL_COMMENT : TITLE
  return [...text.matchAll(pattern)].map((match) => ({
    file,
    line: lineAt(text, match.index),
    text: match.at(-1) ?? '',
  }))
}

/** Returns the commit subjects since the commit that added the rules; none in a clone without that commit. */
function subjects(): TextPiece[] {
  const [first] = git('log', '--diff-filter=A', '--format=%H', '--', '.vale.ini')
  if (first === undefined) return []
  return git('log', '--no-merges', '--format=%h %s', `${first}..HEAD`).map((line) => ({
    file: `commit ${line.split(' ', 1)[0]}`,
    line: 1,
    text: line.slice(line.indexOf(' ') + 1),
  }))
}

function vale(program: string, args: string[], input?: string): Findings {
  const output = execFileSync(program, ['--output=JSON', '--no-exit', ...args], {
    encoding: 'utf8',
    input,
    maxBuffer: 64 * 1024 * 1024,
  })
  return JSON.parse(output) as Findings
}

/** Checks all pieces as comments of one source file, and maps the findings back to their locations. */
function checkPieces(program: string, pieces: readonly TextPiece[]): string[] {
  const text = pieces.map((piece) => `// ${piece.text.replaceAll('\n', ' ')}\n\n`).join('')
  return Object.values(vale(program, ['--ext=.ts'], text)).flatMap((found) =>
    found.map((finding) => {
      const piece = pieces[Math.floor((finding.Line - 1) / 2)]
      return `${piece?.file}:${piece?.line} ${finding.Message} (${piece?.text})`
    }),
  )
}

async function main(): Promise<number> {
  let program: string
  try {
    program = await provideVale()
  } catch (err) {
    console.log(`prose: not checked, because Vale is missing: ${(err as Error).message}`)
    return process.env['CI'] ? 1 : 0
  }
  const named = process.argv.slice(2)
  const files = git('ls-files', '--', ...(named.length > 0 ? named : ['.'])).filter(existsSync)
  const checked = files.filter((file) => /\.(md|ts|tsx|mjs|py)$/.test(file))
  const lines: string[] = []
  for (let at = 0; at < checked.length; at += BATCH) {
    const found = vale(program, checked.slice(at, at + BATCH))
    for (const [file, findings] of Object.entries(found))
      for (const { Line, Message } of findings) lines.push(`${file}:${Line} ${Message}`)
  }
  const pieces = files.filter((file) => /\.(test\.ts|sql)$/.test(file)).flatMap(piecesOf)
  lines.push(...checkPieces(program, [...pieces, ...(named.length === 0 ? subjects() : [])]))
  for (const line of lines) console.log(line)
  console.log(`prose: ${lines.length} findings in ${checked.length} files and ${pieces.length} titles`)
  return lines.length > 0 ? 1 : 0
}

if (import.meta.main) process.exitCode = await main()
