#!/usr/bin/env node
// `commit-message.mjs FILE` (git's commit-msg hook) or `commit-message.mjs --range A..B`: prints one line per problem
// in the commit messages, and exits with 1 if there are any. Runs on Node 20 or newer without any package.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const TYPES = 'feat fix refactor perf test docs build ci chore revert'.split(' ')
const HEADER = new RegExp(`^(?:${TYPES.join('|')})(?:\\([^()\\s]+\\))?!?: \\S`)
const MAX_LENGTH = 72
/** The subject that `git revert` writes. */
const REVERT = /^(?:Revert|Reapply) "/
/**
 * Git's own subjects: merges, and commits that a rebase will fold into an earlier one. The hook accepts both, but a
 * range must not contain the latter.
 */
const OF_GIT = /^(?:Merge|fixup!|squash!|amend!) /
const NEEDS_NO_BODY = /^(?:chore: release\b|revert[(!:])/

function faultsOf(message) {
  const [subject = '', second = '', ...rest] = message.split('\n').map((line) => line.trimEnd())
  if (REVERT.test(subject)) return []
  const length = [...subject].length
  const hasBody = [second, ...rest].some((line) => line !== '')
  return [
    !HEADER.test(subject) && `"type(scope): subject" with a type among ${TYPES.join(', ')}; got "${subject}"`,
    length > MAX_LENGTH && `a subject of at most ${MAX_LENGTH} characters, got ${length}`,
    subject.endsWith('.') && 'a subject without a period at its end',
    second !== '' && `a blank second line, got "${second}"`,
    !hasBody && !NEEDS_NO_BODY.test(subject) && 'a body that says why, after a blank line',
  ].filter(Boolean)
}

/**
 * Returns the message in git's file without the parts that git removes: comments and the diff of `commit -v`.
 */
function fromFile(file) {
  const [text = ''] = readFileSync(file, 'utf8').split(/^# -+ >8 -+$/m)
  const message = text.replace(/^#.*\n?/gm, '').trim()
  return OF_GIT.test(message) ? [] : [['commit message', message]]
}

function fromRange(range) {
  const args = ['log', '--no-merges', '--reverse', '--format=%h%n%B%x00', '--end-of-options', range, '--']
  const options = { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: Infinity }
  const { status, stdout } = spawnSync('git', args, options)
  // git has printed the error.
  if (status !== 0) process.exit(2)
  const commits = stdout.split('\0').map((text) => text.trim().split('\n'))
  return commits.slice(0, -1).map(([hash, ...lines]) => [hash, lines.join('\n')])
}

const [what = '', range = ''] = process.argv.slice(2)
const found = what === '--range' ? fromRange(range) : fromFile(what)
const faults = found.flatMap(([name, message]) =>
  faultsOf(message).map((fault) => `${name}: expected ${fault}`),
)
for (const fault of faults) console.error(fault)
process.exitCode = faults.length > 0 ? 1 : 0
