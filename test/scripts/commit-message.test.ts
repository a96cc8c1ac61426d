import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'

const SCRIPT = resolve('scripts/commit-message.mjs')
const HOOKS = resolve('.githooks')
const BODY = '\n\nBecause of a reason.\n'

/** Isolates the tests from the user's git configuration and from a git process that runs these tests. */
const GIT_ENV = {
  PATH: process.env['PATH'],
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_AUTHOR_NAME: 'Ann',
  GIT_AUTHOR_EMAIL: 'ann@example.org',
  GIT_COMMITTER_NAME: 'Ann',
  GIT_COMMITTER_EMAIL: 'ann@example.org',
}

function run(command: string, args: string[], cwd: string): { status: number | null; lines: string[] } {
  const { status, stderr } = spawnSync(command, args, { cwd, env: GIT_ENV, encoding: 'utf8' })
  return { status, lines: stderr.split('\n').filter(Boolean) }
}

/** Returns the errors that the hook reports for a message. */
function faultsOf(message: string): string[] {
  using folder = temporaryFolder()
  const file = join(folder.path, 'COMMIT_EDITMSG')
  writeFileSync(file, message)
  const { status, lines } = run(process.execPath, [SCRIPT, file], folder.path)
  assert.equal(status, lines.length > 0 ? 1 : 0)
  return lines
}

/** Creates a repository with one valid commit. */
function repository(): { path: string; commit(message: string): void } & Disposable {
  const folder = temporaryFolder()
  const git = (...args: string[]) => {
    const { status, lines } = run('git', args, folder.path)
    assert.equal(status, 0, lines.join('\n'))
  }
  const commit = (message: string) => git('commit', '--quiet', '--allow-empty', '-m', message)
  git('init', '--quiet')
  commit(`feat: a beginning${BODY}`)
  return { path: folder.path, commit, [Symbol.dispose]: () => folder[Symbol.dispose]() }
}

describe('commit message check', () => {
  for (const subject of [
    'feat: runs say why they wait',
    'fix(api): an answer is told once',
    'refactor!: links speak version 3',
    `docs: ${'é'.repeat(66)}`,
  ]) {
    it(`accepts "${subject}" with a body`, () => {
      assert.deepEqual(faultsOf(subject + BODY), [])
    })
  }

  const REFUSED: [string, RegExp][] = [
    [
      `a change${BODY}`,
      /expected "type\(scope\): subject" with a type among feat, .*revert; got "a change"$/,
    ],
    [`style: blanks${BODY}`, /with a type among .*; got "style: blanks"$/],
    [`feat:no blank${BODY}`, /expected "type\(scope\): subject"/],
    [`fix: ${'a'.repeat(68)}${BODY}`, /expected a subject of at most 72 characters, got 73$/],
    [`fix: it works.${BODY}`, /expected a subject without a period at its end$/],
    ['fix: it works\nat last', /expected a blank second line, got "at last"$/],
    ['fix: it works\n', /expected a body that says why, after a blank line$/],
  ]
  for (const [message, fault] of REFUSED) {
    it(`reports in one line what is wrong with ${JSON.stringify(message)}`, () => {
      const [line = '', ...others] = faultsOf(message)

      assert.match(line, fault)
      assert.deepEqual(others, [])
    })
  }

  it('reports all errors at once', () => {
    assert.equal(faultsOf(`${'Everything changes. '.repeat(4)}\nand more`).length, 4)
  })

  it('requires no body for releases, reverts and merges', () => {
    for (const message of [
      'chore: release 0.13.0',
      'revert: links speak version 3',
      `Revert "feat: ${'a'.repeat(66)}"`,
      "Merge branch 'main' into links",
    ]) {
      assert.deepEqual(faultsOf(message), [], message)
    }
    assert.equal(faultsOf('chore: other things').length, 1)
  })

  it('ignores the parts that git removes from a message', () => {
    const cut = '# ------------------------ >8 ------------------------\n'

    assert.deepEqual(faultsOf(`# What is it?\nfix: it works${BODY}# On branch main\n${cut}diff --git`), [])
    assert.match(faultsOf(`fix: it works\n\n# Please enter\n${cut}diff --git`).join('\n'), /expected a body/)
  })

  it('names the invalid commits of a range, and skips merges', () => {
    using repo = repository()
    repo.commit('no type at all\n\nBecause.')
    repo.commit('fixup! feat: a beginning\n\nBecause.')
    run('git', ['checkout', '--quiet', '-b', 'side', 'HEAD~1'], repo.path)
    repo.commit(`test: on the side${BODY}`)
    run('git', ['merge', '--quiet', '--no-edit', '-'], repo.path)

    const all = run(process.execPath, [SCRIPT, '--range', 'HEAD~2..HEAD'], repo.path)
    const fine = run(process.execPath, [SCRIPT, '--range', 'HEAD^2..HEAD'], repo.path)
    const absent = run(process.execPath, [SCRIPT, '--range', 'absent..HEAD'], repo.path)

    assert.equal(all.status, 1)
    assert.equal(all.lines.length, 1, all.lines.join('\n'))
    assert.match(all.lines[0] ?? '', /^[0-9a-f]{7,}: expected .*; got "fixup! feat: a beginning"$/)
    assert.deepEqual(fine, { status: 0, lines: [] })
    assert.equal(absent.status, 2)
  })

  it('is installed as the commit-msg hook of this repository', () => {
    using repo = repository()
    run('git', ['config', 'core.hooksPath', HOOKS], repo.path)
    const commit = (message: string) =>
      run('git', ['commit', '--quiet', '--allow-empty', '-m', message], repo.path)

    const refused = commit('done')
    const drafted = commit('fixup! feat: a beginning')

    assert.equal(refused.status, 1)
    assert.match(refused.lines.join('\n'), /^commit message: expected "type\(scope\): subject"/)
    assert.equal(drafted.status, 0)
    repo.commit(`fix: it works${BODY}`)
  })
})
