import { isMainThread, Worker } from 'node:worker_threads'

// Loaded before the main of every Node child: its standard input is a pipe that the supervisor holds, so the
// end of that pipe means that the supervisor is gone, however it went.

/** Temporal and PostgreSQL are going as well, so there is little left that waiting could save. */
const FORCED_AFTER_MS = 3000

// Worker threads load this too, and theirs is not that pipe.
if (isMainThread) watchStandardInput()

function watchStandardInput(): void {
  process.stdin.on('error', () => {})
  process.stdin.on('end', () => {
    // From a thread of its own: a main thread that flushes its log to the broken pipe waits for ever (sonic-boom).
    const program = `setTimeout(() => process.kill(${process.pid}, 'SIGKILL'), ${FORCED_AFTER_MS})`
    new Worker(program, { eval: true, execArgv: [] }).unref()
    process.kill(process.pid, 'SIGTERM')
  })
  process.stdin.resume()
  // It must not keep the child alive when everything else has ended.
  const { unref } = process.stdin as { unref?: () => void }
  unref?.call(process.stdin)
}
