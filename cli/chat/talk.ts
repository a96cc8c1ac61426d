import { createInterface, type Interface } from 'node:readline'
import { CliError } from '../cli-error.ts'
import { inJson, printStatus, printLine } from '../print.ts'
import { type Answer, answer, type Chat, type Message } from './answer.ts'

/** The exit code that shells expect after Ctrl-C. */
const STOPPED = 130
const HELP = '/reset starts over, /system TEXT sets the system prompt, /exit quits'

/** A conversation: each line of standard input is a message or a command. */
export class ChatSession {
  readonly #chat: Chat
  readonly #json: boolean
  #system: string | undefined
  #messages: Message[] = []
  #asking: AbortController | undefined

  constructor(chat: Chat, { system, json }: { system: string | undefined; json: boolean }) {
    this.#chat = chat
    this.#system = system
    this.#json = json
  }

  /** Sends one message and prints the answer; throws if the request fails. */
  async ask(content: string): Promise<void> {
    const asking = new AbortController()
    this.#asking = asking
    const messages: Message[] = [...this.#messages, { role: 'user', content }]
    const prompt: Message[] = this.#system === undefined ? [] : [{ role: 'system', content: this.#system }]
    try {
      const given = await answer(this.#chat, [...prompt, ...messages], {
        onText: (text) => void (this.#json || process.stdout.write(text)),
        onLoading: (s) => printStatus(`hearth: the model is loading; retrying in ${s} s`),
        signal: asking.signal,
      })
      this.#messages = [...messages, { role: 'assistant', content: given.text }]
      this.#tell(given)
    } finally {
      this.#asking = undefined
    }
  }

  /** Reads messages until the input ends. Except on a terminal, the first failed answer ends the conversation. */
  async run(): Promise<void> {
    const isTerminal = process.stdin.isTTY === true
    const lines = createInterface({
      input: process.stdin,
      output: process.stderr,
      terminal: isTerminal,
      prompt: '> ',
    })
    if (isTerminal) printStatus(`${this.#chat.model}: ${HELP}, Ctrl-C stops an answer.`)
    const stop = () => this.#stop(lines)
    lines.on('SIGINT', stop)
    process.on('SIGINT', stop)
    if (isTerminal) lines.prompt()
    for await (const line of lines) {
      if (line.trim() === '/exit') break
      try {
        await this.#take(line)
      } catch (err) {
        const isStopped = (err as Error).name === 'AbortError'
        if (!isTerminal && isStopped) {
          process.exitCode = STOPPED
          break
        }
        if (!isTerminal || !(isStopped || err instanceof CliError)) throw err
        printStatus(isStopped ? '\n(stopped)' : `hearth: ${(err as Error).message}`)
      }
      if (isTerminal) lines.prompt()
    }
    process.off('SIGINT', stop)
    lines.close()
  }

  async #take(line: string): Promise<void> {
    const [, command, rest = ''] = /^\s*\/(\S+)\s*(.*)$/.exec(line) ?? []
    if (command === undefined) return line.trim() === '' ? undefined : this.ask(line)
    if (command === 'reset') this.#messages = []
    else if (command === 'system') this.#system = rest || undefined
    else return printStatus(`hearth: unknown command /${command}; ${HELP}`)
    printStatus(command === 'reset' ? '(conversation reset)' : `(system prompt: ${this.#system ?? 'none'})`)
  }

  #stop(lines: Interface): void {
    if (this.#asking) this.#asking.abort()
    else lines.close()
  }

  #tell({ text, tokens, firstMs, tokensPerS }: Answer): void {
    if (this.#json) {
      const figures = { tokens, first_ms: Math.round(firstMs), tokens_per_s: tokensPerS }
      return printLine(inJson({ content: text, ...figures }))
    }
    process.stdout.write('\n')
    const first = (firstMs / 1000).toFixed(2)
    printStatus(`(${tokens} tokens, ${tokensPerS.toFixed(1)} tok/s, first token after ${first} s)`)
  }
}
