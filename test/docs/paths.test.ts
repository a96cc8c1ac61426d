import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'

const DOCUMENTS = ['README.md', 'CONTRIBUTING.md', ...globSync('docs/**/*.md')]

/** Matches a repository path in backticks, without a `#` fragment or a symbol name. */
const PATH = /`((?:[\w.-]+\/)+[\w.-]+\.(?:ts|mjs|cjs|py|json|yml|sh))`/g
const FOLDERS = new Set(globSync('*/').map((folder) => folder.replace(/[/\\]$/, '')))

describe('files named in the documentation', () => {
  it('exist', () => {
    const named = DOCUMENTS.flatMap((file) =>
      [...readFileSync(file, 'utf8').matchAll(PATH)]
        .map(([, path = '']) => ({ file, path }))
        .filter(({ path }) => FOLDERS.has(path.split('/')[0] ?? '')),
    )

    assert.ok(named.length > 50)
    assert.deepEqual(
      named.filter(({ path }) => !existsSync(path)),
      [],
    )
  })
})
