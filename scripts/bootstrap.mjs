#!/usr/bin/env node
// `bootstrap.mjs PROGRAM ...`: runs on Node 20 or newer without any package. It installs the packages of this checkout
// if they are missing or out of date, then runs the program with Node 24, which is one of the packages.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { delimiter, isAbsolute, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const ROOT = resolve(import.meta.dirname ?? new URL('.', import.meta.url).pathname, '..')
const MODULES = join(ROOT, 'node_modules')
const STAMP = join(MODULES, '.hearth-lock-sha256')
const BIN = join(MODULES, '.bin')

/** The supervisor is idle most of the time, so it gets a small heap. */
const FLAGS = { 'embedded/start.ts': ['--max-semi-space-size=2', '--optimize-for-size'] }

/** Prints progress to standard error, because a script's output may be a document. */
function say(line) {
  process.stderr.write(`hearth: ${line}\n`)
}

function lockDigest() {
  const lock = readFileSync(join(ROOT, 'package-lock.json'))
  return createHash('sha256').update(lock).update(`${process.platform} ${process.arch}`).digest('hex')
}

function read(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

/** Returns whether node_modules matches package-lock.json. */
function isInstalled() {
  if (!existsSync(join(BIN, 'node'))) return false
  if (read(STAMP)?.trim() === lockDigest()) return true
  const installed = packagesOf(join(MODULES, '.package-lock.json'))
  const wanted = packagesOf(join(ROOT, 'package-lock.json'))
  if (!installed || !wanted) return false
  return Object.entries(wanted).every(
    ([path, { version, optional }]) =>
      path === '' || installed[path]?.version === version || (optional && !installed[path]),
  )
}

function packagesOf(file) {
  const text = read(file)
  return text === undefined ? undefined : JSON.parse(text).packages
}

async function install() {
  const started = Date.now()
  say(
    `installing the npm packages (${existsSync(MODULES) ? 'package-lock.json has changed' : 'first run'}) ...`,
  )
  const tick = setInterval(() => say(`still installing (${seconds(started)} s)`), 15_000)
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm'
  const quiet = ['--no-audit', '--no-fund', '--loglevel=error']
  let { code, output } = await capture(npm, ['ci', ...quiet])
  // If the registry lacks packages for other platforms, `npm ci` rejects a valid lock file.
  if (code !== 0 && output.includes('EUSAGE')) {
    say('npm ci rejected package-lock.json; falling back to npm install with the locked versions')
    ;({ code, output } = await capture(npm, ['install', '--no-save', ...quiet]))
  }
  clearInterval(tick)
  if (code !== 0) {
    process.stderr.write(output)
    throw new Error(`installation failed (${code}); see the output above.`)
  }
  say(`npm packages installed (${seconds(started)} s)`)
}

function seconds(since) {
  return Math.round((Date.now() - since) / 1000)
}

function capture(command, args) {
  return new Promise((done) => {
    const child = spawn(command, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
    child.once('error', (err) => done({ code: err.message, output }))
    child.once('close', (code) => done({ code, output }))
  })
}

/** Installs once, even if two scripts start at the same time on a fresh clone: one installs, the other waits. */
async function installOnce() {
  const lock = join(ROOT, '.hearth-install.lock')
  for (;;) {
    try {
      mkdirSync(lock)
      break
    } catch (err) {
      if (err.code !== 'EEXIST') throw err
      const age = Date.now() - (statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now())
      if (age > 10 * 60_000) rmSync(lock, { recursive: true, force: true })
      await sleep(500)
    }
  }
  try {
    if (!isInstalled()) await install()
    writeFileSync(STAMP, `${lockDigest()}\n`)
  } finally {
    rmSync(lock, { recursive: true, force: true })
  }
}

/**
 * Runs a program with Node 24, which is also first on its PATH, and forwards signals to it. A program with an absolute
 * path gets file names from the caller, so it runs in the caller's working directory.
 */
function run(program, args) {
  const env = {
    ...process.env,
    HEARTH_PARENT_PID: String(process.pid),
    // Halves the startup time and saves 20 MB, because the process doesn't load the type stripper.
    NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? join(MODULES, '.cache', 'compile'),
    PATH: `${BIN}${delimiter}${process.env.PATH ?? ''}`,
  }
  const cwd = isAbsolute(program) ? process.cwd() : ROOT
  const child = spawn(join(BIN, 'node'), [...(FLAGS[program] ?? []), program, ...args], {
    cwd,
    env,
    stdio: 'inherit',
  })
  const forward = (signal) => child.kill(signal)
  // A terminal already sends SIGINT to the whole group; this process must not exit before its child.
  process.on('SIGINT', () => !process.stdin.isTTY && forward('SIGINT'))
  process.on('SIGTERM', forward)
  process.on('SIGHUP', forward)
  // npm exits at once on SIGTERM without signaling its scripts, so this process watches its parent.
  const npm = process.ppid
  const watch = () => process.ppid !== npm && forward('SIGTERM')
  if (process.env.npm_lifecycle_event) setInterval(watch, 300).unref()
  return new Promise((done, failed) => {
    child.once('error', failed)
    child.once('close', (code, signal) => done(code ?? 128 + (constants.signals[signal] ?? 0)))
  })
}

async function main([program, ...args]) {
  if (Number(process.versions.node.split('.')[0]) < 20) {
    say(`Node 20 or newer is required; this is ${process.version}.`)
    return 2
  }
  if (read(STAMP)?.trim() !== lockDigest() || !existsSync(join(BIN, 'node'))) await installOnce()
  return run(program, args)
}

main(process.argv.slice(2)).then(
  (code) => (process.exitCode = code),
  (err) => {
    say(err.message)
    process.exitCode = 1
  },
)
