import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { LogFile, MAX_LOG_FILES } from '../../embedded/log-file.ts'
import { createOutput } from '../../embedded/output.ts'
import { until } from '../support/assertions/until.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'

describe('npm start output', () => {
  it('shows event messages with their fields, and writes full lines to the log file', async () => {
    using folder = temporaryFolder()
    const event = {
      level: 30,
      time: 1,
      event: 'gateway.started',
      base_url: 'http://x',
      msg: 'the gateway is ready',
    }
    const request = { level: 30, time: 1, event: 'request.answered', request_id: 'r', status: 200 }
    const text = [event, request].map((line) => `${JSON.stringify(line)}\n`).join('')
    const shown: string[] = []
    const { log } = console
    Object.assign(console, { log: (line: string) => void shown.push(line) })
    try {
      const output = createOutput(folder.path, { quiet: false })
      output.follow('gateway', [Readable.from([Buffer.from(text)])], { echo: true })
      const file = join(folder.path, 'gateway.log')
      await until(() => shown.length > 0 && readFileSync(file, 'utf8') === text)
    } finally {
      Object.assign(console, { log })
    }

    assert.equal(shown.length, 1)
    assert.match(shown[0] ?? '', / gateway {4}info the gateway is ready base_url=http:\/\/x$/)
  })
})

describe('embedded platform log file', () => {
  it('is rotated by size, and its newest files contain all their lines in order', async () => {
    using folder = temporaryFolder()
    const path = join(folder.path, 'x.log')
    const files = [path, ...Array.from({ length: MAX_LOG_FILES - 1 }, (_, i) => `${path}.${i + 1}`)]
    const written = Array.from({ length: 2_000 }, (_, i) => `line ${i} ü`)
    let file = new LogFile(path, 4_000)
    for (const line of written.slice(0, 1_500)) file.write(line)
    file.end()
    await until(() => readFileSync(path, 'utf8').endsWith('line 1499 ü\n'))
    // A restarted child appends to the file.
    file = new LogFile(path, 4_000)
    for (const line of written.slice(1_500)) file.write(line)
    file.end()

    const stored = () =>
      files
        .toReversed()
        .map((name) => (existsSync(name) ? readFileSync(name, 'utf8') : ''))
        .join('')
        .trimEnd()
        .split('\n')
    await until(() => stored().at(-1) === written.at(-1))
    const lines = stored()
    assert.ok(lines.length > 1_000, String(lines.length))
    assert.deepEqual(lines, written.slice(-lines.length))
    for (const name of files) assert.ok(statSync(name).size <= 4_000, name)
    assert.ok(!existsSync(`${path}.${MAX_LOG_FILES}`))
  })

  it('accepts a line that is longer than the limit', async () => {
    using folder = temporaryFolder()
    const path = join(folder.path, 'x.log')
    const file = new LogFile(path, 100)
    for (const line of ['a', 'b'.repeat(500), 'c']) file.write(line)
    file.end()
    await until(() => readFileSync(path, 'utf8') === 'c\n')
    assert.equal(readFileSync(`${path}.1`, 'utf8').length, 501)
  })

  it('loses lines but does not fail when its folder is not writable', () => {
    const file = new LogFile('/proc/nowhere/x.log', 10)
    for (let i = 0; i < 100; i++) file.write('a line')
    file.end()
  })

  for (const [name, code, breakDisk, repair] of [
    // /dev/full simulates a full disk: the file opens, and every write fails.
    [
      'a full disk has room',
      'ENOSPC',
      (path: string) => symlinkSync('/dev/full', path),
      (path: string) => {
        rmSync(path)
        writeFileSync(path, 'half a li')
      },
    ],
    ['its folder exists', 'ENOENT', () => {}, (path: string) => mkdirSync(dirname(path))],
  ] as const)
    it(`resumes soon after ${name} again, and reports how many lines it lost`, async () => {
      using folder = temporaryFolder()
      const path = join(folder.path, code === 'ENOENT' ? 'missing' : '', 'x.log')
      breakDisk(path)
      const file = new LogFile(path)
      let sent = 0
      for (; sent < 3; sent++) {
        file.write(`line ${sent}`)
        await sleep(20)
      }
      repair(path)
      await until(() => {
        file.write(`line ${sent++}`)
        return existsSync(path) && readFileSync(path, 'utf8').endsWith(`line ${sent - 2}\n`)
      })
      file.end()
      await until(() => readFileSync(path, 'utf8').endsWith(`line ${sent - 1}\n`))

      const [report = '', ...lines] = readFileSync(path, 'utf8')
        .replace(/^half a li\n/, '')
        .trimEnd()
        .split('\n')
      const { lost_lines, msg } = JSON.parse(report) as { lost_lines: number; msg: string }
      assert.match(msg, new RegExp(`^${lost_lines} log lines were lost here: .*${code}`))
      assert.equal(lines[0], `line ${lost_lines}`)
      assert.equal(lost_lines + lines.length, sent)
    })
})
