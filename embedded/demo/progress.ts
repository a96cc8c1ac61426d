/** The results: one row per step. */
export type Rows = [step: string, result: string, ms: number][]

/** Reports the progress of a demo. Once a stop is requested, it prints nothing more and starts no further step. */
export class Progress {
  readonly rows: Rows = []
  readonly #signal: AbortSignal
  readonly #print: (text: string) => void

  constructor(
    signal: AbortSignal,
    print: (text: string) => void = (text) => void process.stdout.write(text),
  ) {
    this.#signal = signal
    this.#print = print
  }

  /** Runs one step, prints its result and stores it. */
  async step<T>(name: string, work: () => Promise<T>, result: (value: T) => string): Promise<T> {
    this.#signal.throwIfAborted()
    this.write(`\n${name} ...\n`)
    const started = performance.now()
    const value = await work()
    const text = result(value)
    this.say(text)
    this.rows.push([name, text, performance.now() - started])
    return value
  }

  readonly say = (line: string): void => this.write(`  ${line}\n`)

  readonly write = (text: string): void => {
    if (!this.#signal.aborted) this.#print(text)
  }
}
