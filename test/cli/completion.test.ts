import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { HearthRunner } from '../support/builders/run-hearth.ts'
import { skipBecause } from '../support/skip.ts'

const SHELLS = ['bash', 'zsh', 'fish'] as const

describe('hearth completion', () => {
  let hearth: HearthRunner
  before(() => {
    hearth = new HearthRunner()
  })
  after(() => hearth[Symbol.dispose]())

  /** The command that makes each shell complete; its last word is the one being typed. */
  const ask: Record<(typeof SHELLS)[number], (file: string, words: readonly string[]) => string> = {
    bash: (file, words) =>
      sh('bash', [
        '-c',
        `source ${file}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _hearth; printf '%s\\n' "\${COMPREPLY[@]}"`,
        'bash',
        ...words,
      ]),
    // The functions that offer completions belong to zsh's line editor, which scripts don't have.
    zsh: (file, words) =>
      sh('zsh', [
        '-fc',
        `compdef() {}; _files() { print FILES }; compadd() { print -l -- \${(P)2} }; _describe() { print -l -- \${(P)@[-1]} }
         source ${file}; words=("$@"); CURRENT=$#; _hearth`,
        'zsh',
        ...words,
      ]).replaceAll(/:.*$/gm, ''),
    fish: (file, words) =>
      sh('fish', ['-c', `source ${file}; complete -C '${words.join(' ')}'`]).replaceAll(/\t.*$/gm, ''),
  }

  const sh = (program: string, args: string[]): string =>
    execFileSync(program, args, {
      encoding: 'utf8',
      cwd: hearth.folder,
      env: { PATH: process.env.PATH, HOME: hearth.folder },
    })

  for (const shell of SHELLS) {
    describe(shell, () => {
      let file: string
      before(async function () {
        if (spawnSync(shell, ['--version']).error) skipBecause(this, `there is no ${shell}`)
        const { code, out, err } = await hearth.run(['completion', shell])
        assert.equal(code, 0, err)
        file = join(hearth.folder, `hearth.${shell}`)
        writeFileSync(file, out)
        mkdirSync(join(hearth.folder, 'only-a-folder'), { recursive: true })
      })
      const offered = (...words: string[]) =>
        ask[shell](file, ['hearth', ...words])
          .split('\n')
          .filter(Boolean)

      it('offers nouns, verbs, options and option values', () => {
        assert.ok(offered('').includes('datasets'))
        assert.ok(offered('').includes('killswitch'))
        assert.ok(!offered('').includes('upload'))
        assert.ok(offered('runs', '').includes('logs'))
        assert.ok(!offered('runs', '').includes('datasets'))
        assert.ok(offered('datasets', 'upload', '--').includes('--format'))
        assert.ok(offered('datasets', 'upload', '--format', '').includes('parquet'))
        assert.deepEqual(offered('completion', '').toSorted(), ['bash', 'fish', 'zsh'])
      })

      it('skips options and their values when it resolves the command', () => {
        assert.ok(offered('--base-url', 'runs', 'datasets', '').includes('upload'))
        assert.ok(offered('--json', 'models', '').includes('lineage'))
        assert.ok(offered('train', '--name', 'runs', '--').includes('--watch'))
      })
    })
  }

  it('rejects an unknown shell', async () => {
    const { code, err } = await hearth.run(['completion', 'tcsh'])

    assert.equal(code, 2)
    assert.match(err, /bash, zsh, fish/)
  })
})
