import { runInNewContext } from 'node:vm'
import type { ChatWrapper, ContextOptions } from './binding.ts'
import { UnusableError } from './unusable-error.ts'
import { UnusableWeightsError } from './unusable-weights.ts'

/** The time limit for a template. The slowest template of a real model takes 50 ms. */
const TEMPLATE_TIMEOUT_MS = 10_000
/**
 * A template counts as spinning if its CPU time exceeds this share of the time limit; on a busy machine, it may get
 * less CPU time.
 */
const SPINNING_SHARE = 0.1

interface TimeLimit {
  timeoutMs?: number
}

/** Thrown if a template does not finish in time; `isSpinning` is false if the machine was too busy to run it. */
class TemplateTimeout extends Error {
  override readonly name = 'TemplateTimeout'
  readonly isSpinning: boolean

  constructor(timeoutMs: number, isSpinning: boolean) {
    super(
      `its chat template takes more than ${timeoutMs / 1_000} s${isSpinning ? '' : ' on this busy machine'}`,
    )
    this.isSpinning = isSpinning
  }
}

/**
 * Lets the library parse a model's template, which is a program by the model's author. Throws an `UnusableWeightsError`
 * if the template does not terminate.
 */
export function resolveInTime(
  resolve: () => ChatWrapper,
  { timeoutMs = TEMPLATE_TIMEOUT_MS }: TimeLimit = {},
): ChatWrapper {
  const wrapper = within(timeoutMs, resolve, ({ message, isSpinning }) =>
    isSpinning ? new UnusableWeightsError(message) : new Error(message),
  )
  return Object.create(wrapper, {
    generateContextState: {
      value: (options: ContextOptions) =>
        within(
          timeoutMs,
          () => wrapper.generateContextState(options),
          ({ message }) => new UnusableError(`${message} for these messages`, 'messages'),
        ),
    },
  }) as ChatWrapper
}

/** Runs synchronous work, which the JavaScript engine terminates after the time limit. */
function within<T>(timeoutMs: number, work: () => T, late: (timeout: TemplateTimeout) => Error): T {
  const begun = process.cpuUsage()
  try {
    return runInNewContext('work()', { work }, { timeout: timeoutMs }) as T
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw err
    const { user, system } = process.cpuUsage(begun)
    throw late(new TemplateTimeout(timeoutMs, (user + system) / 1_000 > timeoutMs * SPINNING_SHARE))
  }
}
